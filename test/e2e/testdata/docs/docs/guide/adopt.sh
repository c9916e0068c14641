kubectl annotate deployment/web confrev.io/track-
