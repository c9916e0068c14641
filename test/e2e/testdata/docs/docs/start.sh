## Step 2: Opt a Deployment in
kubectl annotate deployment/web confrev.io/track-
