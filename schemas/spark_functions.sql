-- What Spark's SQL has and DuckDB lacks, or has with another value, as macros of DuckDB. `spark_NAME` is Spark's function
-- NAME; `op_NAME` is an operator or a cast. A type of which a macro would give another value than Spark is an error that
-- begins with `not known here`. tests/spark/test_two_engines.py holds each against Spark.

-- operators and casts

CREATE MACRO op_refused(form, x) AS error('not known here: ' || form || ' of a ' || split_part(typeof(x), '(', 1));

CREATE MACRO op_divide(a, b) AS
  CASE WHEN typeof(a) LIKE 'DECIMAL%' THEN op_refused('/', a) WHEN typeof(b) LIKE 'DECIMAL%' THEN op_refused('/', b)
    WHEN a IS NOT NULL AND b = 0 THEN error('division by zero') ELSE a / b END;

-- Both sides are bound once: a macro writes an argument as often as it names it, and sums nest.
CREATE MACRO op_minus(a, b) AS
  list_extract(list_transform([{'a': a, 'b': b}], lambda v:
    CASE WHEN typeof(v.a) = 'DATE' AND typeof(v.b) IN ('DATE', 'INTERVAL') THEN op_refused('-', v.a) ELSE v.a - v.b END), 1);

CREATE MACRO op_plus(a, b) AS
  list_extract(list_transform([{'a': a, 'b': b}], lambda v:
    CASE WHEN typeof(v.a) = 'DATE' AND typeof(v.b) = 'INTERVAL' THEN op_refused('+', v.a)
      WHEN typeof(v.a) = 'INTERVAL' AND typeof(v.b) = 'DATE' THEN op_refused('+', v.b) ELSE v.a + v.b END), 1);

-- Of a struct or a list whose parts are null DuckDB has another order.
CREATE MACRO op_ordered(x) AS
  CASE WHEN typeof(x) LIKE 'STRUCT%' OR typeof(x) LIKE '%]' THEN op_refused('the order', x) ELSE x END;

CREATE MACRO op_number(x) AS
  CASE WHEN typeof(x) IN ('TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'HUGEINT', 'FLOAT', 'DOUBLE', '"NULL"') THEN x
    ELSE op_refused('avg or median', x) END;

CREATE MACRO op_string(x) AS
  CASE WHEN typeof(x) = 'TIMESTAMP WITH TIME ZONE' THEN regexp_replace(CAST(x AS VARCHAR), '\+00$', '')
    WHEN typeof(x) IN ('VARCHAR', 'BOOLEAN', 'TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'HUGEINT', 'DATE', '"NULL"')
      OR typeof(x) LIKE 'DECIMAL%' THEN CAST(x AS VARCHAR)
    ELSE op_refused('a STRING', x) END;

-- As itself: concat_ws takes lists of texts, too.
CREATE MACRO op_joined(x) AS
  CASE WHEN typeof(x) IN ('VARCHAR', 'VARCHAR[]', 'BOOLEAN', 'INTEGER', 'BIGINT', 'DATE', '"NULL"') THEN x
    ELSE op_refused('a STRING', x) END;

CREATE MACRO op_whole(x) AS
  CASE WHEN typeof(x) = 'TIMESTAMP WITH TIME ZONE'
      THEN CAST(epoch(date_trunc('second', TRY_CAST(CAST(x AS VARCHAR) AS TIMESTAMPTZ))) AS HUGEINT)
    WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN CAST(trunc(TRY_CAST(x AS DOUBLE)) AS HUGEINT)
    WHEN typeof(x) LIKE 'DECIMAL%' THEN CAST(split_part(CAST(x AS VARCHAR), '.', 1) AS HUGEINT)
    WHEN typeof(x) = 'BOOLEAN' THEN CAST(CAST(x AS BOOLEAN) AS HUGEINT)
    WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '\s*[+-]?[0-9]+\s*')
      THEN error('not a whole number: ' || CAST(x AS VARCHAR))
    WHEN typeof(x) IN ('VARCHAR', 'TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'HUGEINT', '"NULL"')
      THEN CAST(trim(CAST(x AS VARCHAR)) AS HUGEINT)
    ELSE op_refused('a whole number', x) END;

CREATE MACRO op_int(x) AS CAST(op_whole(x) AS INTEGER);
CREATE MACRO op_bigint(x) AS CAST(op_whole(x) AS BIGINT);
CREATE MACRO op_double(x) AS
  CASE WHEN typeof(x) = 'TIMESTAMP WITH TIME ZONE' THEN epoch(TRY_CAST(CAST(x AS VARCHAR) AS TIMESTAMPTZ))
    WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*')
      THEN error('not a number: ' || CAST(x AS VARCHAR))
    WHEN typeof(x) IN ('DATE', 'BLOB', 'INTERVAL') THEN op_refused('a DOUBLE', x)
    ELSE CAST(CAST(x AS VARCHAR) AS DOUBLE) END;
CREATE MACRO op_decimal(x) AS
  CASE WHEN typeof(x) = 'VARCHAR' AND NOT regexp_full_match(CAST(x AS VARCHAR), '\s*[+-]?[0-9]+(\.[0-9]*)?\s*')
      THEN error('not a number: ' || CAST(x AS VARCHAR)) ELSE x END;
CREATE MACRO op_try_whole(x) AS
  CASE WHEN typeof(x) <> 'VARCHAR' THEN op_refused('TRY_CAST', x)
    WHEN regexp_full_match(CAST(x AS VARCHAR), '\s*[+-]?[0-9]+\s*') THEN trim(CAST(x AS VARCHAR)) END;
CREATE MACRO op_try_int(x) AS TRY_CAST(op_try_whole(x) AS INTEGER);
CREATE MACRO op_try_bigint(x) AS TRY_CAST(op_try_whole(x) AS BIGINT);
CREATE MACRO op_timestamp(x) AS
  CASE WHEN typeof(x) IN ('TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'HUGEINT', 'DOUBLE') OR typeof(x) LIKE 'DECIMAL%'
      THEN op_refused('a TIMESTAMP', x)
    ELSE CAST(CAST(x AS VARCHAR) AS TIMESTAMPTZ) END;

-- numbers

CREATE MACRO spark_ceil(x) AS CAST(ceil(x) AS BIGINT);
CREATE MACRO spark_floor(x) AS CAST(floor(x) AS BIGINT);
-- Spark rounds the decimal number that a DOUBLE is written as.
CREATE MACRO spark_round(x) AS CASE WHEN typeof(x) <> 'DOUBLE' THEN op_refused('round', x) ELSE round(CAST(x AS DOUBLE)) END,
  (x, n) AS
  CASE WHEN typeof(x) <> 'DOUBLE' THEN op_refused('round', x)
    ELSE CAST(round(CAST(CAST(x AS VARCHAR) AS DECIMAL(38, 15)), n) AS DOUBLE) END;
CREATE MACRO spark_ln(x) AS CASE WHEN x > 0 THEN ln(x) END;
CREATE MACRO spark_log10(x) AS CASE WHEN x > 0 THEN log10(x) END;
CREATE MACRO spark_log2(x) AS CASE WHEN x > 0 THEN log2(x) END;
CREATE MACRO spark_sign(x) AS CAST(sign(x) AS DOUBLE);
CREATE MACRO spark_isnan(x) AS coalesce(isnan(x), false);
CREATE MACRO spark_isnull(x) AS x IS NULL;
CREATE MACRO spark_isnotnull(x) AS x IS NOT NULL;

CREATE MACRO spark_percentile(x, p) AS quantile_cont(CAST(x AS DOUBLE), p);

-- texts

CREATE MACRO spark_btrim(x) AS trim(x);
CREATE MACRO spark_left(x, n) AS CASE WHEN n IS NOT NULL THEN left(x, greatest(n, 0)) END;
CREATE MACRO spark_right(x, n) AS CASE WHEN n IS NOT NULL THEN right(x, greatest(n, 0)) END;
CREATE MACRO spark_sha2(x, bits) AS CASE WHEN bits IN (0, 256) THEN sha256(x) ELSE error('not known here: sha2 of other than 256') END;
CREATE MACRO spark_octet_length(x) AS octet_length(encode(x));

-- times

CREATE MACRO op_elapsed(a, b, us) AS
  (epoch_us(CAST(b AS TIMESTAMPTZ)) - epoch_us(CAST(a AS TIMESTAMPTZ))) // CAST(us AS BIGINT);
CREATE MACRO spark_datediff(until, since) AS date_diff('day', CAST(since AS DATE), CAST(until AS DATE));
CREATE MACRO spark_date_add(x, n) AS CAST(x AS DATE) + CAST(n AS INTEGER);
CREATE MACRO spark_date_sub(x, n) AS CAST(x AS DATE) - CAST(n AS INTEGER);
CREATE MACRO spark_add_months(x, n) AS CAST(CAST(x AS DATE) + to_months(CAST(n AS INTEGER)) AS DATE);
CREATE MACRO spark_last_day(x) AS last_day(CAST(x AS DATE));
CREATE MACRO spark_year(x) AS year(CAST(x AS TIMESTAMPTZ));
CREATE MACRO spark_month(x) AS month(CAST(x AS TIMESTAMPTZ));
CREATE MACRO spark_day(x) AS day(CAST(x AS TIMESTAMPTZ));
CREATE MACRO spark_dayofyear(x) AS dayofyear(CAST(x AS TIMESTAMPTZ));
CREATE MACRO spark_weekofyear(x) AS weekofyear(CAST(x AS TIMESTAMPTZ));
CREATE MACRO spark_dayofweek(x) AS dayofweek(x) + 1;
CREATE MACRO spark_weekday(x) AS (dayofweek(x) + 6) % 7;
CREATE MACRO spark_dayname(x) AS left(dayname(x), 3);
CREATE MACRO spark_monthname(x) AS left(monthname(x), 3);
CREATE MACRO spark_to_date(x) AS CAST(x AS DATE);
CREATE MACRO spark_to_timestamp(x) AS CAST(x AS TIMESTAMPTZ);
CREATE MACRO spark_unix_timestamp(x) AS epoch_us(CAST(x AS TIMESTAMPTZ)) // 1000000;
CREATE MACRO spark_unix_seconds(x) AS CAST(epoch(date_trunc('second', x)) AS BIGINT);
CREATE MACRO spark_unix_millis(x) AS epoch_us(date_trunc('millisecond', x)) // 1000;
CREATE MACRO spark_unix_micros(x) AS epoch_us(x);
CREATE MACRO op_count(x) AS
  CASE WHEN typeof(x) IN ('INTEGER', 'BIGINT') THEN CAST(x AS BIGINT) ELSE op_refused('a TIMESTAMP', x) END;
CREATE MACRO spark_timestamp_seconds(x) AS make_timestamptz(op_count(x) * 1000000);
CREATE MACRO spark_timestamp_millis(x) AS make_timestamptz(op_count(x) * 1000);
CREATE MACRO spark_timestamp_micros(x) AS make_timestamptz(op_count(x));
CREATE MACRO spark_from_utc_timestamp(x, zone) AS timezone('UTC', timezone(zone, CAST(x AS TIMESTAMPTZ)));
CREATE MACRO spark_now() AS now();
CREATE MACRO spark_current_date() AS CAST(now() AS DATE);

-- arrays and maps

CREATE MACRO spark_get(a, n) AS CASE WHEN n >= 0 THEN list_extract(a, n + 1) END;
CREATE MACRO spark_array_contains(a, x) AS
  CASE WHEN x IS NULL OR a IS NULL THEN NULL WHEN list_contains(a, x) THEN true
    WHEN list_position(a, NULL) IS NULL THEN false END;
CREATE MACRO spark_array_position(a, x) AS CASE WHEN a IS NOT NULL AND x IS NOT NULL THEN coalesce(list_position(a, x), 0) END;
CREATE MACRO spark_array_distinct(a) AS list_filter(a, lambda x, n: list_position(a, x) = n);
CREATE MACRO spark_array_except(a, b) AS
  list_filter(a, lambda x, n: list_position(a, x) = n AND (b IS NULL OR list_position(b, x) IS NULL)) || CASE WHEN b IS NULL THEN NULL ELSE [] END;
CREATE MACRO spark_array_intersect(a, b) AS
  CASE WHEN b IS NOT NULL THEN list_filter(a, lambda x, n: list_position(a, x) = n AND list_position(b, x) IS NOT NULL) END;
CREATE MACRO spark_array_union(a, b) AS CASE WHEN a IS NOT NULL AND b IS NOT NULL THEN spark_array_distinct(list_concat(a, b)) END;
CREATE MACRO spark_array_repeat(x, n) AS list_transform(range(n), lambda _: x);
CREATE MACRO spark_flatten(a) AS
  CASE WHEN len(list_filter(a, lambda x: x IS NULL)) = 0 THEN flatten(a) END;
CREATE MACRO op_step(x) AS
  CASE WHEN typeof(x) IN ('INTEGER', 'BIGINT') THEN CAST(CAST(x AS VARCHAR) AS BIGINT) ELSE op_refused('sequence', x) END;
CREATE MACRO spark_sequence(a, b) AS generate_series(op_step(a), op_step(b), CASE WHEN b < a THEN -1 ELSE 1 END),
  (a, b, step) AS CASE WHEN (op_step(b) - op_step(a)) * op_step(step) < 0 THEN error('sequence: the step leads away')
    ELSE generate_series(op_step(a), op_step(b), op_step(step)) END;
CREATE MACRO spark_size(x) AS CASE WHEN typeof(x) LIKE '%]' THEN len(x) ELSE op_refused('size', x) END;
-- Lambdas cannot be arguments of macros: `a` is what the lambda made of each.
CREATE MACRO op_exists(a) AS list_reduce(a, lambda x, y: x OR y, false);
CREATE MACRO op_forall(a) AS list_reduce(a, lambda x, y: x AND y, true);
