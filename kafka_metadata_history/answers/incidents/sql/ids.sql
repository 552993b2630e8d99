-- Incidents that may have been meant, the last ones first.
SELECT id FROM gold.incidents
WHERE CAST(:cluster AS STRING) IS NULL OR cluster = :cluster
ORDER BY began_before DESC, id
LIMIT 1000
