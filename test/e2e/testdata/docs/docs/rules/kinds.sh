## Configured kinds
yaml 'kubectl confrev render -f docs/examples/web.yaml --config $1'
