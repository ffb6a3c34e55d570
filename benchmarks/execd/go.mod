module opensandbox.io/benchmarks/execd

go 1.26.0
