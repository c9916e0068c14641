kubectl patch configmap/app --patch '{"data":{"color":"red"}}'
kubectl confrev status deployment/web --wait
