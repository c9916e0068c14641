on configmap/app

## Let a metric decide
on deployment/web

## Stop, but let a person decide what happens then
on configmap/app

## Only with a deploy, or only when a person asks
on deployment/web
