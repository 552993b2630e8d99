-- Which voters and observers were not caught up when the quorum was asked last.
SELECT cluster, voters_behind, observers_behind FROM silver.quorum
WHERE {of_cluster} AND {then} AND voters_behind IS NOT NULL
