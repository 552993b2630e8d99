"""SQL of which DuckDB has Spark's value: each function, form and type that `schemas.known_sql` says
is known, with what the two are most likely to tell apart: nulls, ends, signs, empty texts and
lists.
"""


def _items(text: str) -> list[str]:
    return [" ".join(each.split()) for each in text.split(";") if each.strip()]


ROWS = """SELECT * FROM VALUES
   (1, 1, 10L, 1.5D, 'a', TIMESTAMP '2026-11-26 09:35:06.444', DATE '2026-11-26', true,
     array(3, 1, 2, 1), array('x', NULL, 'y'), map('k', 1L), struct(1 AS x, 'a' AS y),
     CAST(1.50 AS DECIMAL(10, 2))),
   (2, 2, 7L, -2.5D, 'ab', TIMESTAMP '2026-01-01 23:59:59.999999', DATE '2026-01-31', false,
     array(1, NULL), array('b'), map('j', 2L, 'k', NULL), struct(2 AS x, NULL AS y),
     CAST(-2.25 AS DECIMAL(10, 2))),
   (3, -7, -4L, 1e10D, 'a_b', TIMESTAMP '1969-12-31 23:59:59.5', DATE '2024-02-29', NULL,
     array(), array(), map(), NULL, CAST(0.05 AS DECIMAL(10, 2))),
   (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
   (5, 2, 1700000000L, 0.001D, 'Zä%', TIMESTAMP '2026-03-29 01:30:00', DATE '2026-03-29', true,
     array(5), array('q', 'q'), map('k', 3L), struct(1 AS x, 'a' AS y), CAST(100 AS DECIMAL(10, 2)))
   AS t(k, i, l, d, s, ts, da, b, a, sa, m, st, de)"""
"""The table `t`: a key, then a column of each type, with nulls."""

SCALARS = _items(r"""
i + l; i - 1; i * d; -i; +i; i / 2; l / i; d / 3; i % 3; l % 4; i div 2; -7 div 2; d % 2; de + 1;
de * 2; de - de; i + 1.5; l * 1.5; 10 / 4; i = l; i <> 2; i != 2; i < d; i <= 2; s = 'a'; s < 'b';
ts > '2026-11-01'; ts >= TIMESTAMP '2026-11-26 09:00:00'; da = '2026-11-26';
da <= DATE '2026-11-26'; i <=> NULL; s <=> 'a'; i == 2; de = 1.5; i = '2'; d = i; ts = da; b = true;
b; NOT b; d = d; d > 1e300; i IS NULL; s IS NOT NULL; b IS TRUE; b IS NOT FALSE; i BETWEEN 1 AND 3;
s BETWEEN 'a' AND 'b'; i IN (1, 2); i NOT IN (1, 2); s IN ('a', 'x'); i IS DISTINCT FROM 2;
ts BETWEEN '2026-11-26' AND '2026-11-27'; i NOT IN (1, NULL); d IN (1, 2); b AND i > 1; b OR i > 1;
NOT (b AND s = 'a'); CASE WHEN i > 1 THEN 'x' ELSE 'y' END;
CASE i WHEN 1 THEN 'x' WHEN 2 THEN 'y' END; CASE WHEN b THEN i ELSE d END; if(b, i, l);
if(i > 1, 'x', NULL); coalesce(s, 'none'); coalesce(i, l, 0); coalesce(i, 0.5); nullif(i, 2);
nullif(s, 'a'); nvl(i, 0); nvl2(i, 'x', 'y'); ifnull(s, 'z'); isnull(i); isnotnull(i); isnan(d);
s LIKE 'a%'; s LIKE '_b'; s NOT LIKE '%b'; s LIKE 'a\_%'; s LIKE 'a|_%' ESCAPE '|'; s ILIKE 'A%';
s RLIKE 'a.'; regexp_like(s, '^a'); regexp_like(s, '\\d'); 'a_b' LIKE 'a\_b';
s LIKE concat('a', '%'); s RLIKE '^a$'; CAST(i AS STRING); CAST(l AS INT); CAST(d AS BIGINT);
CAST(i AS DOUBLE); CAST('12' AS INT); CAST(' 12 ' AS INT); CAST('1.5' AS DOUBLE); CAST(b AS STRING);
CAST(b AS INT); CAST(i AS BOOLEAN); CAST('true' AS BOOLEAN); CAST('2026-11-26' AS DATE);
CAST('2026-11-26 10:00:00' AS TIMESTAMP); CAST('2026-11-26T10:00:00Z' AS TIMESTAMP);
CAST('2026-11-26T10:00:00+02:00' AS TIMESTAMP); CAST('2026-11-26T10:00:00.123456' AS TIMESTAMP);
CAST(ts AS DATE); CAST(da AS TIMESTAMP); CAST(ts AS STRING); CAST(da AS STRING); CAST(de AS STRING);
CAST(ts AS BIGINT); CAST(ts AS DOUBLE); CAST(i AS DECIMAL(10, 2)); CAST(de AS INT);
CAST(de AS DOUBLE); CAST('1.5' AS DECIMAL(10, 2)); CAST(NULL AS STRING); TRY_CAST('x' AS INT);
TRY_CAST('1.7' AS INT); TRY_CAST(' 12 ' AS INT); i::string; '7'::int; TRY_CAST('' AS INT);
TRY_CAST('1e3' AS INT); TRY_CAST('0x10' AS INT); TRY_CAST('1_000' AS INT); abs(i); abs(d); abs(de);
ceil(d); floor(d); ceil(i); ceiling(d); floor(l / 2); round(d); round(d, 1); round(2.5D);
round(0.125D, 2); round(l / 3, 2); round(1e10D / 3, 3); sqrt(d); pow(i, 2); power(d, 2); exp(i);
ln(d); log10(d); log2(d); greatest(i, l); least(i, l, 2); greatest(s, 'b'); greatest(i, NULL);
least(d, 1); greatest(ts, TIMESTAMP '2026-11-26 00:00:00'); sign(i); pi(); upper(s); lower('ÄB');
ucase(s); lcase('A'); length(s); char_length(s); len(s); character_length('ä'); substring(s, 1, 1);
substring('kafka', 2); substr('kafka', 2, 3); substring('kafka' FROM 2 FOR 2); trim('  a ');
ltrim(' a '); rtrim(' a '); trim(BOTH 'x' FROM 'xax'); btrim(' a '); trim('\t a\n'); concat(s, 'x');
concat(s, i); concat('a', b); concat(s, ts); s || 'x'; s || i; s || ts;
concat_ws('-', s, 'x', NULL); concat_ws('-', s, i); replace('abcab', 'ab', 'x');
split('a,b,c', ','); split('a.b', '\\.'); split('', ','); split('a1b22c', '[0-9]+');
split_part('a.b.c', '.', 2); lpad('a', 3, 'x'); rpad('a', 3, 'x'); lpad('abcd', 2, 'x');
lpad('a', 3); instr('kafka', 'k'); instr('kafka', 'z'); locate('k', 'kafka');
locate('k', 'kafka', 2); position('k' IN 'kafka'); left('kafka', 2); right('kafka', 2);
repeat('ab', 2); reverse('abc'); startswith(s, 'a'); endswith('kafka', 'ka');
contains('kafka', 'fk'); regexp_replace('a1b2', '[0-9]', 'x');
regexp_extract('a12', '([a-z])([0-9]+)', 2); regexp_extract('a12', '([0-9]+)');
regexp_extract('zz', '([0-9]+)', 1); regexp_extract('a12', '[0-9]+', 0);
regexp_extract_all('a1b2', '([0-9])', 1); regexp_count('a1b2', '[0-9]');
translate('abc', 'ab', 'xy'); md5(s); sha1(s); sha2(s, 256); hex(10); hex(s); octet_length('ä');
char_length('a '); date_trunc('HOUR', ts); date_trunc('day', ts); date_trunc('WEEK', ts);
date_trunc('MONTH', ts); date_trunc('QUARTER', ts); date_trunc('YEAR', ts);
date_trunc('minute', ts); date_trunc('second', ts); date_trunc('millisecond', ts);
date_trunc('day', da); year(ts); month(ts); day(ts); dayofmonth(ts); hour(ts); minute(ts);
second(ts); dayofweek(ts); dayofyear(ts); weekday(ts); weekofyear(ts); quarter(ts); year(da);
dayofweek(da); extract(YEAR FROM ts); extract(HOUR FROM ts); extract(MINUTE FROM ts);
extract(DAY FROM ts); extract(WEEK FROM ts); extract(MONTH FROM ts); extract(DOY FROM ts);
extract(QUARTER FROM ts); dayname(ts); monthname(ts); date_add(da, 7); date_sub(da, 7);
dateadd(da, 7); date_add(ts, 1); da + 1; da - 1; datediff(da, DATE '2026-11-01');
datediff(ts, TIMESTAMP '2026-11-25 23:00:00'); date_diff(da, DATE '2026-11-01');
datediff(DAY, TIMESTAMP '2026-11-25 23:00:00', ts);
datediff(HOUR, TIMESTAMP '2026-11-25 23:30:00', ts);
datediff(MINUTE, TIMESTAMP '2026-11-26 08:00:50', ts);
datediff(SECOND, TIMESTAMP '2026-11-26 08:00:00', ts);
datediff(MILLISECOND, TIMESTAMP '2026-11-26 08:00:00', ts);
timestampdiff(SECOND, TIMESTAMP '2026-11-26 08:00:00', ts);
timestampdiff(MINUTE, TIMESTAMP '2026-11-26 08:00:50', ts); timestampadd(HOUR, 2, ts);
add_months(da, 1); add_months(DATE '2026-01-31', 1); last_day(da); to_date('2026-11-26');
to_date(ts); to_timestamp('2026-11-26 10:00:00'); make_date(2026, 11, 26); unix_timestamp(ts);
unix_timestamp('2026-11-26 09:35:06'); to_unix_timestamp(ts); unix_seconds(ts); unix_millis(ts);
unix_micros(ts); timestamp_seconds(l); timestamp_millis(l); timestamp_micros(l);
date_format(ts, 'yyyy-MM-dd HH:mm:ss'); date_format(ts, 'yyyy-MM-dd HH:mm:ss.SSS');
date_format(ts, "yyyy-MM-dd'T'HH:mm:ssXXX"); date_format(ts, 'HH:mm'); date_format(ts, 'E');
date_format(ts, 'EEEE'); date_format(ts, 'MMM d'); date_format(ts, 'yy'); date_format(ts, 'h:mm a');
date_format(da, 'yyyy-MM'); date_format(ts, 'yyyyMMdd'); date_format(ts, "yyyy-MM-dd'T'HH:mm");
date_format(ts, 'dd.MM.yyyy'); date_format(ts, 'H'); date_format(ts, 'EEE');
date_format(ts, 'MMMM'); date_format(ts, 'ss.SSSSSS'); date_format(ts, 'yyyy%');
date_format(ts, 'M/d'); from_utc_timestamp(ts, 'Europe/Berlin'); ts + INTERVAL 1 DAY;
ts - INTERVAL 2 HOURS; ts + INTERVAL '1' HOUR; ts + INTERVAL '5 minutes'; ts - INTERVAL 1 MONTH;
ts - INTERVAL 90 SECONDS; ts + INTERVAL 1 HOUR 30 MINUTES;
ts - TIMESTAMP '2026-11-26 00:00:00' > INTERVAL 1 HOUR;
ts - TIMESTAMP '2026-11-25 00:00:00' < INTERVAL 1 DAY; ts - INTERVAL 1 WEEK; ts + INTERVAL '1' DAY;
ts - i * INTERVAL 1 HOUR; ts + INTERVAL 1 YEAR; ts - INTERVAL 500 MILLISECONDS;
ts - INTERVAL 1 day + INTERVAL 1 hour; TIMESTAMP '2026-03-31 00:00:00' - INTERVAL 1 MONTH;
ts - INTERVAL -1 DAY; size(a); size(sa); array_size(a); array(1, 2); array(i, l);
array_contains(a, 1); array_contains(sa, 'x'); array_distinct(a); array_except(a, array(2));
array_intersect(a, array(2, 3)); array_union(a, array(9)); array_join(sa, '-');
array_join(sa, '-', '?'); array_sort(a); sort_array(a); sort_array(a, false); array_max(a);
array_min(a); array_position(a, 2); array_append(a, 4); array_repeat('a', 2); element_at(m, 'k');
get(a, 0); get(a, 10); m['k']; slice(a, 1, 2); slice(a, -2, 2); flatten(array(a, a));
transform(a, x -> x + 1); filter(a, x -> x > 1); exists(a, x -> x > 1); forall(a, x -> x > 1);
aggregate(a, 0, (acc, x) -> acc + x); reduce(a, 0, (acc, x) -> acc + x); sequence(1, 3);
sequence(3, 1); sequence(1, 10, 3); a = array(1, 2); map_keys(m); map_values(m);
map_from_entries(array(struct('a', 1))); struct(i, s); struct(i AS p, s AS q); named_struct('p', i);
st.x; st.y; -i % 3; - 7 % 3; 2 + 3 * 4 - 1; 'it''s'; "double"; 'a\nb'; r'a\n'; 1L; 1.5D; 1.5; 1e2;
1.5BD; 9999999999; 'ä'; DATE '2026-11-26'; TIMESTAMP '2026-11-26 09:35:06.444'; NULL; true;
TIMESTAMP '2026-11-26T09:35:06Z'; 1.50; 0.1 + 0.2; 1e0 + 0.1; i / NULL; NULL / 0;
CAST('1e3' AS DOUBLE); CAST('+5' AS INT); CAST('no' AS BOOLEAN); CAST(d AS BOOLEAN);
CAST(0.125D AS DECIMAL(10, 2)); CAST(2.675D AS DECIMAL(10, 2)); CAST(-0.5 AS INT);
CAST('2026-11-26' AS TIMESTAMP); CAST(da AS STRING) || 'x';
CAST(CAST(d AS DECIMAL(20, 3)) AS STRING); round(2.675D, 2); round(1.005D, 2); round(-2.5D);
round(0.5D); round(1e-7D, 3); round(123456.789D, -2); round(d, 0); round(i / 3, 2); round(l / 7, 3);
floor(-1.5D); ceil(-1.5D); abs(-2147483647); pow(2, 0.5D); sqrt(-1D); exp(1000D); pow(0, -1);
5 div -2; -5 % 3; 5 % -3; -5.5D % 2; 1.5 % 1; i > '1'; coalesce(NULL, 'a'); concat(NULL, 'a');
greatest('a', 'B'); least(d, 1e308D); if(NULL, 1, 2); nullif(1, 1);
concat_ws('-', array('a', NULL), 'b'); length('😀'); reverse('aé'); lpad('ä', 3, '*-');
repeat('a', 0); repeat('a', -1); left('abc', -1); left('abc', NULL); right('abc', 5);
substring('abc', 2, 0); substring('abc', 5, 2); split('abc', ''); split('a,b,', ',');
replace('aaa', 'aa', 'b'); replace('abc', '', 'x'); translate('abc', 'ab', 'x'); instr('', 'a');
instr('a', ''); locate('', 'abc'); regexp_extract('abc', '(z)?abc', 1);
regexp_replace('abc', '', '-'); regexp_replace('a.b', '\\.', '-'); 'abc' RLIKE '(?i)ABC';
'a\nb' RLIKE 'a.b'; 'a' LIKE ''; '' LIKE ''; 'a%b' LIKE 'a\%b'; 'axb' LIKE 'a\%b';
'a\nb' LIKE 'a%b'; split_part('a.b.c', '.', -1); split_part('a.b.c', '.', 9); md5(''); hex(-1);
trim('\n a \t'); ltrim('xxa', 'x'); trim(LEADING 'x' FROM 'xxa'); contains('abc', '');
startswith('abc', ''); datediff(TIMESTAMP '2026-11-26 00:00:01', TIMESTAMP '2026-11-25 23:59:59');
datediff('2026-11-26', '2026-11-01'); datediff(WEEK, TIMESTAMP '2026-11-01 00:00:00', ts);
date_add('2026-11-26', 1); date_add(da, -1); date_sub(da, i); add_months(DATE '2026-02-28', 1);
add_months(DATE '2026-03-31', -1); add_months(da, i); last_day(ts); weekofyear(DATE '2027-01-01');
dayofweek(DATE '2026-11-29'); weekday(DATE '2026-11-29');
date_trunc('WEEK', TIMESTAMP '2026-11-29 10:00:00'); to_date('2026-11-26 10:00:00');
to_date('2026-11-26T23:30:00-05:00'); to_timestamp('2026-11-26'); unix_timestamp(da);
unix_seconds(TIMESTAMP '1969-12-31 23:59:59.5'); unix_millis(TIMESTAMP '1969-12-31 23:59:59.9995');
timestamp_micros(-1L); hour(TIMESTAMP '2026-11-26T23:00:00+02:00');
from_utc_timestamp(TIMESTAMP '2026-07-01 12:00:00', 'America/New_York');
from_utc_timestamp(TIMESTAMP '2026-03-29 00:59:59', 'Europe/Berlin'); date_format(ts, 'SSS');
date_format(da, 'EEEE, d MMMM yyyy'); date_format(ts, "yyyy''MM"); date_format(ts, 'HH''h''');
date_format(TIMESTAMP '2026-01-02 00:03:04', 'hh:mm a'); date_format(ts, 'yyyy/MM/dd HH%');
timestampadd(DAY, -1, ts); timestampadd(MONTH, 1, TIMESTAMP '2026-01-31 00:00:00');
TIMESTAMP '2026-01-31 00:00:00' + INTERVAL 1 MONTH; minute(da); quarter(da); extract(WEEK FROM da);
ts - INTERVAL '1 day 2 hours'; now() > ts; current_date() > da; current_timestamp() > ts;
ts BETWEEN da AND ts; ts = CAST(ts AS STRING); array_contains(array(1, NULL), 2);
array_join(a, ','); array_max(array()); sort_array(array(2, NULL, 1));
sort_array(array(2, NULL, 1), false); array_sort(array(2, NULL, 1)); array_append(a, NULL);
array_intersect(array(2, 1, 2, NULL), array(NULL, 2)); array_except(array(2, 1, 2, NULL), array(1));
array_union(array(2, 1), array(3, 2, NULL)); array_distinct(array('b', 'a', 'b'));
array_position(array(1, NULL), 9); array_repeat(1, 0); flatten(array(array(1), NULL));
slice(a, 2, 9); slice(a, 9, 1); filter(sa, x -> x IS NOT NULL); transform(a, x -> x * 2);
transform(sa, x -> concat(x, '!')); exists(a, x -> x = 2); exists(sa, x -> x IS NULL);
forall(a, x -> x > 0); forall(array(), x -> false); aggregate(a, 0L, (acc, x) -> acc + x);
aggregate(sa, '', (acc, x) -> concat(acc, x)); get(a, -1); get(sa, 1); m['z']; element_at(m, 'z');
map_keys(map_from_entries(array(struct('b', 1), struct('a', 2)))); size(array(1, NULL));
array_size(sa); struct(i AS p).p; transform(a, x -> struct(x AS y));
size(filter(a, x -> x > 1)) > 0; sequence(i, 3); sequence(1, 1); array(1, 2.5); array('a', NULL);
array_min(sa); array_max(sa); size(array_except(a, array(1))) > 0; array_contains(a, k);
named_struct('p', i, 'q', s); CAST('2026-11-26 10:00:00' AS DATE); CAST('2026-1-2' AS DATE);
CAST(' 1.25 ' AS DECIMAL(5, 1)); CAST('y' AS BOOLEAN); CAST(X'6f7264657273' AS STRING);
greatest(da, DATE '2026-01-01'); least(s, 'b'); da - i; da + i; CAST('-0' AS INT);
""")
"""Values of each row."""

AGGREGATES = _items(r"""
count(*); count(i); count(DISTINCT i); count(DISTINCT i, s); sum(d); sum(de); avg(i); avg(d);
mean(i); min(i); max(s); min(ts); max(d); max(b); min(b); collect_list(i);
sort_array(collect_set(s)); sort_array(collect_list(s)); array_sort(collect_set(i)); array_agg(i);
min_by(s, i); bool_or(b); bool_and(b); stddev(d); stddev(i); stddev_samp(i); stddev_pop(i);
variance(i); var_samp(i); var_pop(i); median(i); median(d); percentile(i, 0.5); percentile(l, 0.95);
percentile(i, array(0.5, 0.9)); covar_pop(i, l); covar_samp(i, l); count(*) FILTER (WHERE b);
listagg(s, ','); string_agg(s, ','); sum(i) / count(*); round(avg(i), 2); avg(l / 1000);
max(i) - min(i); min_by(ts, i); percentile(d, 0.99); percentile(l, 0.0); max_by(s, l); min_by(i, l);
max_by(i, k) FILTER (WHERE b); avg(l); avg(i / 2); sum(d) / 3; sum(DISTINCT l); count(DISTINCT s);
stddev(l); collect_list(s); array_sort(collect_list(i)); size(collect_set(i)); max(length(s));
min(da); bool_or(i > 1); count_if(s LIKE 'a%'); variance(d); sum(size(a)); max(i / 2); sum(i) % 2;
round(sum(l) / 1000, 1); median(l); max(CAST(ts AS DATE)); stddev(i) FILTER (WHERE k = 1);
variance(i) FILTER (WHERE k = 1); covar_samp(i, l) FILTER (WHERE k = 1);
stddev_pop(i) FILTER (WHERE k = 1); median(i) FILTER (WHERE false);
""")
"""Values of all rows."""

WINDOWS = _items(r"""
row_number() OVER (ORDER BY k); rank() OVER (ORDER BY s); dense_rank() OVER (ORDER BY s);
lag(i) OVER (ORDER BY k); lead(i) OVER (ORDER BY k); lag(i, 2) OVER (ORDER BY k);
lag(i, 1, 0) OVER (ORDER BY k); sum(i) OVER (ORDER BY k); sum(i) OVER (PARTITION BY s ORDER BY k);
count(*) OVER (); avg(i) OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW);
sum(i) OVER (ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING);
first_value(i) OVER (ORDER BY k); last_value(i) OVER (ORDER BY k);
nth_value(i, 2) OVER (ORDER BY k); ntile(2) OVER (ORDER BY k); percent_rank() OVER (ORDER BY k);
cume_dist() OVER (ORDER BY k); first_value(i) IGNORE NULLS OVER (ORDER BY k);
lag(i) IGNORE NULLS OVER (ORDER BY k);
max(ts) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 1 HOUR PRECEDING AND CURRENT ROW);
rank() OVER (ORDER BY i); rank() OVER (ORDER BY i DESC); sum(i) OVER (ORDER BY i);
max(s) OVER (PARTITION BY i); sum(i) OVER (ORDER BY s DESC NULLS FIRST);
lead(i, 1, -1) OVER (PARTITION BY b ORDER BY k); count(i) OVER (PARTITION BY b);
""")
"""Values of windows of rows."""

QUERIES = [
    "SELECT s, count(*) AS n FROM t GROUP BY s ORDER BY n DESC, s",
    "SELECT upper(s) AS s, count(*) AS n FROM t GROUP BY s ORDER BY s",
    "SELECT b, sum(i) AS n FROM t GROUP BY b HAVING sum(i) > 0 ORDER BY b",
    "SELECT b, sum(i) AS n FROM t GROUP BY ALL ORDER BY b",
    "SELECT i + 1 AS j, j * 2 AS h FROM t ORDER BY k",
    "SELECT i + 1 AS l, l * 2 AS h FROM t ORDER BY k",
    "SELECT DISTINCT i FROM t ORDER BY i",
    "SELECT i FROM t ORDER BY i NULLS LAST",
    "SELECT i FROM t ORDER BY i LIMIT 2 OFFSET 1",
    "SELECT i FROM t WHERE k IN (SELECT k FROM t WHERE b) ORDER BY k",
    (
        "SELECT k FROM t AS o WHERE EXISTS (SELECT 1 FROM t AS j WHERE j.i = o.i AND j.k <> o.k) "
        "ORDER BY k"
    ),
    "SELECT k, (SELECT max(j.l) FROM t AS j WHERE j.i = o.i) AS m FROM t AS o ORDER BY k",
    "SELECT k FROM t WHERE i NOT IN (SELECT i FROM t WHERE k > 3) ORDER BY k",
    "SELECT o.k, j.k AS o FROM t AS o JOIN t AS j ON o.i = j.i ORDER BY 1, 2",
    "SELECT o.k, j.k AS o FROM t AS o LEFT JOIN t AS j ON o.i = j.i AND j.k > 2 ORDER BY 1, 2",
    "SELECT o.k, j.k AS o FROM t AS o RIGHT JOIN t AS j ON o.i = j.l ORDER BY 2, 1",
    "SELECT o.k, j.k AS o FROM t AS o FULL JOIN t AS j ON o.i = j.l ORDER BY 1, 2",
    "SELECT k, o.i FROM t AS o JOIN t AS j USING (k) ORDER BY k",
    "SELECT * FROM (SELECT k, i FROM t) JOIN (SELECT k, l FROM t) USING (k) ORDER BY k",
    "SELECT o.k FROM t AS o LEFT SEMI JOIN t AS j ON o.i = j.i AND j.b ORDER BY 1",
    "SELECT o.k FROM t AS o LEFT ANTI JOIN t AS j ON o.i = j.i AND j.b ORDER BY 1",
    "SELECT count(*) AS n FROM t AS o CROSS JOIN t AS j",
    "SELECT i FROM t UNION SELECT k FROM t ORDER BY i",
    "SELECT i FROM t UNION ALL SELECT k FROM t ORDER BY i",
    "SELECT i FROM t INTERSECT SELECT k FROM t ORDER BY i",
    "SELECT i FROM t EXCEPT SELECT k FROM t ORDER BY i",
    (
        "WITH o AS (SELECT k, i FROM t WHERE i > 0), j AS (SELECT max(k) AS k FROM o) SELECT i "
        "FROM o JOIN j USING (k)"
    ),
    "WITH o(x, y) AS (SELECT k, i FROM t) SELECT x, y FROM o ORDER BY x",
    "SELECT x FROM t LATERAL VIEW explode(a) e AS x ORDER BY k, x",
    "SELECT k, explode(a) AS x FROM t ORDER BY k, x",
    "SELECT * FROM VALUES (1, 'a'), (2, NULL) AS v(x, y) ORDER BY x",
    "SELECT * EXCEPT (a, sa, m, st, d, ts) FROM t ORDER BY k",
    (
        "SELECT CASE WHEN i IS NULL THEN 'none' ELSE 'some' END AS x, count(*) AS n FROM t GROUP "
        "BY x ORDER BY x"
    ),
    (
        "SELECT s, i, row_number() OVER (PARTITION BY b ORDER BY k DESC) AS n FROM t QUALIFY n = "
        "1 ORDER BY k"
    ),
    "SELECT x FROM (SELECT sum(i) OVER w AS x, k FROM t WINDOW w AS (ORDER BY k)) ORDER BY k",
    "SELECT date_trunc('DAY', ts) AS day, count(*) AS n FROM t GROUP BY day ORDER BY day",
    "SELECT count(*) AS n FROM t WHERE NOT (i > 1)",
    "SELECT max(i) AS x FROM t WHERE false",
    "SELECT sum(i) AS x, count(i) AS n, avg(i) AS a FROM t WHERE false",
    "SELECT collect_list(i) AS x, collect_set(s) AS y FROM t WHERE false",
    "SELECT b, array_sort(collect_list(i) FILTER (WHERE k > 2)) AS x FROM t GROUP BY b ORDER BY b",
    "SELECT k, collect_list(i) OVER (PARTITION BY k) AS x FROM t ORDER BY k",
    "SELECT I, T.K FROM T ORDER BY K",
    (
        "SELECT `i` AS `the number`, \"it's\" AS x, 'it''s' AS y, 'a\\'b' AS z FROM t ORDER BY k "
        "LIMIT 1"
    ),
    "SELECT k /* why */ AS x FROM t -- because",
    "SELECT (SELECT max(i) FROM t) - i AS x FROM t ORDER BY k",
    "FROM t SELECT k ORDER BY k",
    "SELECT s AS x FROM t WHERE s = 'zä%' OR lower(s) = 'zä%'",
    "SELECT i FROM t GROUP BY i ORDER BY count(*) DESC, i",
    "SELECT k FROM t WHERE da >= current_date() - 1000000 ORDER BY k",
    "SELECT k FROM t WHERE ts < now() - INTERVAL 1 DAY ORDER BY k",
    "SELECT listagg(s, ',') WITHIN GROUP (ORDER BY s) AS x FROM t",
]
"""Whole queries."""

ERRORS = [
    "1 / 0",
    "1 % 0",
    "1 div 0",
    "i / 0",
    "2147483647 + 1",
    "CAST('x' AS INT)",
    "CAST('1.7' AS INT)",
    "CAST('x' AS DOUBLE)",
    "CAST('1_0' AS DECIMAL(5, 1))",
    "CAST('x' AS TIMESTAMP)",
    "CAST(3000000000 AS INT)",
    "CAST(s AS BOOLEAN)",
    "s IN (1, 2)",
    "to_date('x')",
    "to_timestamp('x')",
    "make_date(2026, 13, 1)",
    "sequence(1, 3, -1)",
]
"""Errors in both."""
