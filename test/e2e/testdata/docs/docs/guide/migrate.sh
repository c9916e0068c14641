## From checksum annotations
yaml '(echo "apiVersion: apps/v1"; echo "kind: Deployment"; sed "s/^metadata:/&\n  name: web/; s/^spec:/&\n  selector: {matchLabels: {app: web}}/" $1) | in_a_chart'
