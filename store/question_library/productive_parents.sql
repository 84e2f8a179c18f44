-- title: Which nodes were the most productive parents?
-- meaning: >-
--   Nodes by how many faster kernels were made directly from them. Starting points for a fork.
-- columns:
--   session: session
--   node: parent
--   speedup: its own speedup
--   children: nodes made from it
--   better: of them, faster than it
--   best_child: the fastest child
--   best_speedup: speedup of that child
-- parameters:
--   most:
--     default: 20
--     meaning: parents to list
WITH judged AS MATERIALIZED (SELECT session, node, parent, if(noisy, NULL, speedup) AS speedup FROM nodes)
SELECT parent.session, parent.node, any_value(parent.speedup) AS speedup, count(*) AS children,
    count(*) FILTER (child.speedup > parent.speedup) AS better, arg_max(child.node, child.speedup) AS best_child,
    max(child.speedup) AS best_speedup
FROM judged AS child JOIN judged AS parent ON parent.session = child.session AND parent.node = child.parent
GROUP BY parent.session, parent.node
ORDER BY better DESC, best_speedup DESC NULLS LAST, parent.session, parent.node LIMIT $most
