## Helm waits only for its own request
yaml '(echo "apiVersion: apps/v1"; echo "kind: Deployment"; echo "metadata: {name: web}"; echo "spec:"; echo "  selector: {matchLabels: {app: web}}"; cat $1) | in_a_chart'
