## Any system
rm -r deploy && mkdir deploy && sed 's/blue/green/' docs/examples/web.yaml >deploy/web.yaml

## GitHub
yaml 'later kubectl delete --ignore-not-found -f $1; kubectl apply -f $1'
