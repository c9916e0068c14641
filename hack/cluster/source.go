package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"
)

// downloadSites are the sites from which kwokctl fetches Kubernetes' and etcd's released binaries.
var downloadSites = []string{"https://dl.k8s.io", "https://github.com/etcd-io/etcd/releases"}

// controlPlaneSource makes sure of the binaries that up needs, and reports whether kwokctl is to download those of the
// control plane itself.
func controlPlaneSource(ctx context.Context, l layout, k kubernetes) (download bool, err error) {
	mode := os.Getenv(project.sourceVariable)
	switch mode {
	case "", "auto":
		download, err = autoSource(ctx, l, k)
	case "download":
		download = true
		if err := reachable(ctx); err != nil {
			return false, fmt.Errorf("%s=download, but %w: check network and proxy, or build with %s=build", project.sourceVariable, err, project.sourceVariable)
		}
	case "build":
	default:
		return false, fmt.Errorf("%s=%q is not known: use auto, download or build", project.sourceVariable, mode)
	}
	if err != nil {
		return false, err
	}
	wanted := tools
	if !download {
		wanted = append(k.components(), tools...)
	}
	return download, ensure(ctx, l, wanted...)
}

// autoSource downloads unless the binaries are built already or the sites do not answer.
func autoSource(ctx context.Context, l layout, k kubernetes) (download bool, err error) {
	built := true
	for _, name := range k.components() {
		path, err := l.binary(name)
		if err != nil {
			return false, err
		}
		built = built && runnable(path)
	}
	if built {
		return false, nil
	}
	if err := reachable(ctx); err != nil {
		say("%v: Kubernetes is built from source instead (minutes, once)", err)
		return false, nil
	}
	return true, nil
}

// reachable asks all download sites at once, for 2 s in all.
func reachable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	results := make(chan error, len(downloadSites))
	for _, site := range downloadSites {
		go func() { results <- answers(ctx, site) }()
	}
	for range downloadSites {
		if err := <-results; err != nil {
			return err
		}
	}
	return nil
}

func answers(ctx context.Context, site string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, site, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", site, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("%s cannot be reached (%w)", site, err)
	}
	_ = response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s cannot be used (it answers %s)", site, response.Status)
	}
	return nil
}
