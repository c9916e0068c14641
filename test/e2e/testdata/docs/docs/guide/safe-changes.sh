on configmap/app

## Let a metric decide
on deployment/web

## Stop, and let a person decide
on configmap/app

## Only with a deploy, or when a person asks
on deployment/web
