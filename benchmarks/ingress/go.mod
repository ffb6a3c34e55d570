module opensandbox.io/benchmarks/ingress

go 1.26.0
