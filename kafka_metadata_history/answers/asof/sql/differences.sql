-- Things that are not equal on both sides. Of one side alone, whoever tells it says whether the other side is known.
WITH before AS (
{before}
),

after AS (
{after}
)

SELECT coalesce(b.cluster, a.cluster) AS cluster, coalesce(b.kind, a.kind) AS kind, coalesce(b.name, a.name) AS name,
  coalesce(b.part, a.part, '') AS part, coalesce(b.what, a.what) AS what,
  CASE WHEN b.what IS NULL THEN a.source WHEN a.what IS NULL THEN b.source END AS source,
  b.value AS before, a.value AS after, b.what IS NOT NULL AS is_before, a.what IS NOT NULL AS is_after
FROM before b
FULL OUTER JOIN after a
  ON a.cluster {on_cluster} b.cluster AND a.kind = b.kind AND a.name = b.name
    AND coalesce(a.part, '') = coalesce(b.part, '') AND a.what = b.what
WHERE b.what IS NULL OR a.what IS NULL OR b.value IS DISTINCT FROM a.value
