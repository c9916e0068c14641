## SecretsLimited
kubectl create serviceaccount web
kubectl annotate serviceaccount web kubernetes.io/enforce-mountable-secrets=true
