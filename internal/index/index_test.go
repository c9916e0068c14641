package index

import (
	"math"
	"runtime"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// An event must reach every workload to which it may matter, through the index.
func TestSourcesOfAWorkloadInTheIndex(t *testing.T) {
	defaults := optin.Defaults{}
	defaults.Compat.Reloader, defaults.Compat.Wave = true, true
	template := gen.Template(gen.EnvFrom("configmap/app"))
	tests := map[string]struct {
		obj  *appsv1.Deployment
		want string
	}{
		"nothing at all":                     {gen.Deployment("web"), ""},
		"what it refers to, opted in or not": {gen.Deployment("web", template), "configmap/app"},
		"what it restarts on":                {gen.Deployment("web", template, gen.Annotated(keys.RestartOn, "secret/db,persistentvolumeclaims.v1./data{.spec}")), "configmap/app secret/db"},
		"what it names":                      {gen.Deployment("web", gen.Annotated("secret.reloader.stakater.com/reload", "db")), "secret/db"},
		"what it has an expression for":      {gen.Deployment("web", gen.Annotated("configmap.reloader.stakater.com/reload", "a.*")), "configmap/*"},
		"the source, not the revision that was injected": {
			gen.Deployment("web", gen.Pinned("configmap/app=app-bbbbbbbbbb@1"), gen.Template(gen.EnvFrom("configmap/app-bbbbbbbbbb"))), "configmap/app"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(sources(workload.Deployment, defaults)(test.obj), " "); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// What is no source has an index of its own, which answers for all namespaces.
func TestTriggersOfAWorkloadInTheIndex(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"none":           {"", ""},
		"only sources":   {"configmap/app,secret/db", ""},
		"other objects":  {"secret/db,persistentvolumeclaims.v1./data{.spec},storageclasses.v1.storage.k8s.io/fast", "persistentvolumeclaims.v1/data storageclasses.v1.storage.k8s.io/fast"},
		"partly unclear": {"oops,persistentvolumeclaims.v1/data", "persistentvolumeclaims.v1/data"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(triggers(gen.Deployment("web", gen.Annotated(keys.RestartOn, test.text))), " "); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// The index reads each workload again at each of its changes, in every replica.
func TestIndexingCostsLittleMoreThanTheAnnotations(t *testing.T) {
	const size, most = 100_000, 10
	defaults := optin.Defaults{}
	defaults.Compat.Reloader, defaults.Compat.Wave = true, true
	tests := map[string]struct{ key, item string }{
		"commas": {keys.Track, ","}, "sources": {keys.Track, "configmap/a,"}, "triggers": {keys.RestartOn, "configmap/a,"},
		"expressions": {"configmap.reloader.stakater.com/reload", "a{900},"}, "mistakes": {"configmap.reloader.stakater.com/reload", "(,"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			web := gen.Deployment("web", gen.Annotated(test.key, strings.Repeat(test.item, size/len(test.item))))
			least := uint64(math.MaxUint64)
			// Others may allocate meanwhile.
			for range 3 {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				sources(workload.Deployment, defaults)(web)
				runtime.ReadMemStats(&after)
				least = min(least, after.TotalAlloc-before.TotalAlloc)
			}
			if least > most*size {
				t.Errorf("%d bytes for an annotation of %d", least, size)
			}
		})
	}
}
