//go:build e2e

package e2e

import (
	"maps"
	"strings"
	"testing"

	"confrev.io/confrev/test/gen"
)

// --compat=reloader,wave: what their users expect of their annotations, and no restart for switching over.
func TestAnnotationsOfOtherToolsRestart(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		annotations map[string]string
		// source has annotations of ConfigMap web.
		source map[string]string
		// edited is the ConfigMap whose edit is to restart the workload, or not.
		edited   string
		restarts bool
	}{
		"Reloader's auto":                           {map[string]string{"reloader.stakater.com/auto": "true"}, nil, "web", true},
		"Reloader's auto for ConfigMaps":            {map[string]string{"configmap.reloader.stakater.com/auto": "true"}, nil, "web", true},
		"Reloader's auto for Secrets":               {map[string]string{"secret.reloader.stakater.com/auto": "true"}, nil, "web", false},
		"Reloader's auto, and an ignored source":    {map[string]string{"reloader.stakater.com/auto": "true"}, map[string]string{"reloader.stakater.com/ignore": "true"}, "web", false},
		"Reloader's auto, and an excluded one":      {map[string]string{"reloader.stakater.com/auto": "true", "configmaps.exclude.reloader.stakater.com/reload": "web"}, nil, "web", false},
		"Reloader's auto, which is not followed":    {map[string]string{"reloader.stakater.com/auto": "true"}, nil, "apart", false},
		"Reloader's list of names":                  {map[string]string{"configmap.reloader.stakater.com/reload": "x, apart"}, nil, "apart", true},
		"Reloader's list of expressions":            {map[string]string{"configmap.reloader.stakater.com/reload": "ap.*t"}, nil, "apart", true},
		"Reloader's expressions match whole names":  {map[string]string{"configmap.reloader.stakater.com/reload": "part"}, nil, "apart", false},
		"Reloader's search, and a match":            {map[string]string{"reloader.stakater.com/search": "true"}, map[string]string{"reloader.stakater.com/match": "true"}, "web", true},
		"Reloader's search, and none":               {map[string]string{"reloader.stakater.com/search": "true"}, nil, "web", false},
		"Wave":                                      {map[string]string{"wave.pusher.com/update-on-config-change": "true"}, nil, "web", true},
		"Wave's extra ConfigMaps":                   {map[string]string{"wave.pusher.com/update-on-config-change": "true", "wave.pusher.com/extra-configmaps": "apart"}, nil, "apart", true},
		"confrev's own annotation wins over theirs": {map[string]string{"reloader.stakater.com/auto": "true", "confrev.io/track": "none"}, nil, "web", false},
		"Reloader's auto=false opts out":            {map[string]string{"reloader.stakater.com/auto": "false"}, nil, "web", false},
		"Reloader's list and its source's ignore":   {map[string]string{"configmap.reloader.stakater.com/reload": "apart"}, map[string]string{"reloader.stakater.com/ignore": "true"}, "web", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			web := configMap("web", "k", "1")
			web.Annotations = tt.source
			d := deployment("web", envFrom("web"), gen.Untracked)
			maps.Copy(d.Annotations, tt.annotations)
			w.Create(web, configMap("apart", "k", "1"), d)
			if tt.restarts {
				w.waitFollowed("web", "configmap/"+tt.edited)
			}
			w.Barrier()
			if got := len(w.ReplicaSets("web")); got != 1 {
				t.Errorf("switching over made %d ReplicaSets, hashes %s", got, w.hashes("web"))
			}
			w.Edit(tt.edited, "k", "2")
			if tt.restarts {
				w.waitRestarted("web", "configmap/"+tt.edited, "")
				return
			}
			w.Barrier()
			if got := w.hashes("web"); strings.Contains(got, tt.edited) {
				t.Errorf("restarted: %s", got)
			}
		})
	}
}

// What cannot be followed of another tool's annotation is said.
func TestUnsupportedToolAnnotationsAreReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("web", "k", "1"),
		deployment("web", envFrom("web"), gen.Untracked, gen.Annotated("wave.pusher.com/update-on-config-change", "true"),
			gen.Annotated("wave.pusher.com/extra-configmaps", "elsewhere/app")),
		deployment("other", envFrom("web"), gen.Untracked, gen.Annotated("configmap.reloader.stakater.com/reload", "web,(")))
	w.WaitEvent("InvalidCompat", "web", `"elsewhere/app" is in another namespace`)
	w.WaitEvent("InvalidCompat", "other", "is not a regular expression")
	w.waitFollowed("web", "configmap/web")
	w.waitFollowed("other", "configmap/web")
}
