package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/account"
	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

func textsOf(uses []podspec.Use) string {
	var texts []string
	for _, use := range uses {
		texts = append(texts, use.String())
	}
	return strings.Join(texts, " ")
}

// What is pinned and what only restarts a workload, by what the workload and its sources say.
func TestSelectUses(t *testing.T) {
	const (
		reload = "configmap.reloader.stakater.com/reload"
		auto   = "reloader.stakater.com/auto"
	)
	mode := func(mode string) gen.DeploymentModifier { return gen.Annotated(keys.Mode, mode) }
	template := gen.Template(gen.EnvFrom("configmap/app"), gen.Env("configmap/web", "k"), gen.Volume("secret/db"))
	tests := map[string]struct {
		asks           []gen.DeploymentModifier
		source         map[string]string // the annotations of configmap/app and of configmap/extra
		noSecrets      bool
		pinned, hashed string
		warned         string // reasons
	}{
		"nothing is asked":                  {},
		"all":                               {asks: []gen.DeploymentModifier{gen.Tracking("all")}, pinned: "configmap/app configmap/web secret/db"},
		"all, without Secrets":              {asks: []gen.DeploymentModifier{gen.Tracking("all")}, noSecrets: true, pinned: "configmap/app configmap/web"},
		"a Secret, without Secrets":         {asks: []gen.DeploymentModifier{gen.Tracking("secret/db")}, noSecrets: true, warned: notice.KindNotEnabled},
		"one that nothing refers to":        {asks: []gen.DeploymentModifier{gen.Tracking("configmap/app,configmap/gone")}, pinned: "configmap/app", warned: notice.NotReferenced},
		"all, restart":                      {asks: []gen.DeploymentModifier{gen.Tracking("all"), mode("restart")}, hashed: "configmap/app configmap/web secret/db"},
		"all, attach":                       {asks: []gen.DeploymentModifier{gen.Tracking("all"), mode("attach")}},
		"live":                              {asks: []gen.DeploymentModifier{gen.Tracking("all")}, source: map[string]string{keys.Policy: "live"}, pinned: "configmap/web secret/db"},
		"live, restart":                     {asks: []gen.DeploymentModifier{gen.Tracking("all"), mode("restart")}, source: map[string]string{keys.Policy: "live"}, hashed: "configmap/app configmap/web secret/db"},
		"rotating":                          {asks: []gen.DeploymentModifier{gen.Tracking("all")}, source: map[string]string{keys.Policy: "rotate"}, pinned: "configmap/web secret/db", hashed: "configmap/app"},
		"rotating, restart":                 {asks: []gen.DeploymentModifier{gen.Tracking("all"), mode("restart")}, source: map[string]string{keys.Policy: "rotate"}, hashed: "configmap/app configmap/web secret/db"},
		"rotating, attach":                  {asks: []gen.DeploymentModifier{gen.Tracking("all"), mode("attach")}, source: map[string]string{keys.Policy: "rotate"}},
		"rotating, not listed":              {asks: []gen.DeploymentModifier{gen.Tracking("configmap/web")}, source: map[string]string{keys.Policy: "rotate"}, pinned: "configmap/web"},
		"ignored":                           {asks: []gen.DeploymentModifier{gen.Tracking("all")}, source: map[string]string{keys.Policy: "ignore"}, pinned: "configmap/web secret/db"},
		"ignored, restart":                  {asks: []gen.DeploymentModifier{gen.Tracking("all"), mode("restart")}, source: map[string]string{keys.Policy: "ignore"}, hashed: "configmap/web secret/db"},
		"a policy that is none":             {asks: []gen.DeploymentModifier{gen.Tracking("configmap/app")}, source: map[string]string{keys.Policy: "x"}, pinned: "configmap/app", warned: "InvalidMode"},
		"a leader's lock, listed (rule 10)": {asks: []gen.DeploymentModifier{gen.Tracking("configmap/app")}, source: map[string]string{"control-plane.alpha.kubernetes.io/leader": "{}"}, warned: revision.NeverCopied},
		"restart on one next to pins":       {asks: []gen.DeploymentModifier{gen.Tracking("configmap/app"), gen.Annotated(keys.RestartOn, "configmap/extra")}, pinned: "configmap/app", hashed: "configmap/extra"},
		"restart on one alone":              {asks: []gen.DeploymentModifier{gen.Annotated(keys.RestartOn, "persistentvolumeclaims.v1/data,configmap/extra")}, hashed: "configmap/extra persistentvolumeclaims.v1/data"},
		"restart on what restarts anyway":   {asks: []gen.DeploymentModifier{gen.Tracking("configmap/app"), mode("restart"), gen.Annotated(keys.RestartOn, "configmap/app")}, hashed: "configmap/app"},
		"Reloader's auto":                   {asks: []gen.DeploymentModifier{gen.Annotated(auto, "true")}, hashed: "configmap/app configmap/web secret/db"},
		"Reloader's list":                   {asks: []gen.DeploymentModifier{gen.Annotated(reload, "extra,app")}, hashed: "configmap/app configmap/extra"},
		"Reloader's expression":             {asks: []gen.DeploymentModifier{gen.Annotated(reload, "ex.*")}, hashed: "configmap/extra"},
		"Reloader's list, revision":         {asks: []gen.DeploymentModifier{gen.Annotated(reload, "extra,app"), mode("revision")}, pinned: "configmap/app", hashed: "configmap/extra"},
		"Reloader's expression, revision":   {asks: []gen.DeploymentModifier{gen.Annotated(reload, ".*"), mode("revision")}, pinned: "configmap/app configmap/web", hashed: "configmap/extra"},
		"Reloader's list, revision, and restart on one": {
			asks:   []gen.DeploymentModifier{gen.Annotated(reload, "app"), mode("revision"), gen.Annotated(keys.RestartOn, "configmap/app")},
			pinned: "configmap/app", hashed: "configmap/app"},
		"Reloader's list, and an ignored source that is referred to": {
			asks: []gen.DeploymentModifier{gen.Annotated(reload, "app,web")}, source: map[string]string{"reloader.stakater.com/ignore": "true"}, hashed: "configmap/web"},
		"Reloader's list, and an ignored source that is not": {
			asks: []gen.DeploymentModifier{gen.Annotated(reload, "extra,web")}, source: map[string]string{keys.Policy: "ignore"}, hashed: "configmap/web"},
		"Reloader's expression, and an ignored source": {
			asks: []gen.DeploymentModifier{gen.Annotated(reload, "ex.*,web")}, source: map[string]string{keys.Policy: "ignore"}, hashed: "configmap/web"},
		"Reloader's list, and an excluded source": {
			asks: []gen.DeploymentModifier{gen.Annotated(reload, "extra,web"), gen.Annotated("configmaps.exclude.reloader.stakater.com/reload", "extra")}, hashed: "configmap/web"},
		"a leader's lock, listed, restart": {
			asks: []gen.DeploymentModifier{gen.Tracking("configmap/app"), mode("restart")}, source: map[string]string{"control-plane.alpha.kubernetes.io/leader": "{}"}, warned: revision.NeverCopied},
		"a leader's lock among all, restart": {
			asks: []gen.DeploymentModifier{gen.Tracking("all"), mode("restart")}, source: map[string]string{"control-plane.alpha.kubernetes.io/leader": "{}"}, hashed: "configmap/web secret/db"},
		"none, and restart on one":            {asks: []gen.DeploymentModifier{gen.Tracking("none"), gen.Annotated(keys.RestartOn, "configmap/extra")}},
		"Reloader's list next to auto: false": {asks: []gen.DeploymentModifier{gen.Annotated(reload, "extra"), gen.Annotated(auto, "false")}, hashed: "configmap/extra"},
		"Reloader's opt-out":                  {asks: []gen.DeploymentModifier{gen.Annotated(reload, "extra"), gen.Annotated("reloader.stakater.com/ignore", "true")}},
		"Reloader's opt-out, and restart on":  {asks: []gen.DeploymentModifier{gen.Annotated(auto, "false"), gen.Annotated(keys.RestartOn, "configmap/extra")}, hashed: "configmap/extra"},
		"Reloader's annotation, unreadable":   {asks: []gen.DeploymentModifier{gen.Annotated(auto, "yes")}, warned: "InvalidCompat"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			options := Options{Secrets: !test.noSecrets, Injection: "admission"}
			options.Compat.Reloader = true
			app, extra := gen.ConfigMap("app", nil), gen.ConfigMap("extra", nil)
			app.Annotations, extra.Annotations = test.source, test.source
			hash := content.FromConfigMap(extra).Hash()
			made := gen.ConfigMap(content.RevisionName(extra.Name, hash, 0), nil)
			made.Labels, made.Annotations = map[string]string{keys.Content: string(hash)}, map[string]string{keys.SourceName: "extra"}
			made.Immutable = new(true)
			c := fake.NewClientBuilder().WithObjects([]client.Object{
				app, extra, made, gen.ConfigMap("web", nil), gen.Secret("db", corev1.SecretTypeOpaque, nil),
			}...).Build()
			r := &Engine{
				Now:  time.Now,
				Kind: workload.Deployment, Options: options, Client: c, Kinds: &workload.Kinds{}, Accounts: account.New(c, time.Now),
				Store: revision.NewStore(c, c, c, time.Now, &workload.Kinds{}, 10),
			}
			d := gen.Deployment("web", append(test.asks, template)...)
			seen := newObserved(d.Namespace, view{reader: r.Client})
			seen.template, seen.config = &d.Spec.Template, r.Kind.Config(d, index.Namespace(), options.Defaults())
			seen.warnings = seen.config.Problems
			if err := r.selectUses(t.Context(), d, seen); err != nil {
				t.Fatal(err)
			}
			if got := textsOf(seen.pins.Uses); got != test.pinned {
				t.Errorf("pinned %q, want %q", got, test.pinned)
			}
			if got := textsOf(seen.hashes.Uses); got != test.hashed {
				t.Errorf("hashed %q, want %q", got, test.hashed)
			}
			var warned []string
			for _, w := range seen.warnings {
				warned = append(warned, w.Reason)
			}
			if got := strings.Join(warned, " "); got != test.warned {
				t.Errorf("warned %+v, want %q", seen.warnings, test.warned)
			}
		})
	}
}

// What regular expressions match is bounded like a list: each match costs a read, and a place in an annotation.
func TestWhatExpressionsMatchIsBounded(t *testing.T) {
	const reload = "configmap.reloader.stakater.com/reload"
	for name, test := range map[string]struct {
		objects, followed int
		warned            bool
	}{
		"as many as may be": {200, 200, false},
		"more than may be":  {201, 200, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := fake.NewClientBuilder()
			for i := range test.objects {
				b = b.WithObjects(gen.ConfigMap(fmt.Sprintf("app-%03d", i), nil))
			}
			c := b.Build()
			r := &Engine{Kind: workload.Deployment, Client: c, Options: Options{Injection: "admission", Compat: optin.Compat{Reloader: true}}}
			d := gen.Deployment("web", gen.Annotated(reload, "app-.*"))
			seen := newObserved(d.Namespace, view{reader: c})
			seen.config = r.Kind.Config(d, index.Namespace(), r.Options.Defaults())
			found, err := r.trackedByName(t.Context(), seen)
			if err != nil || len(found) != test.followed || found[0].Name != "app-000" || found[len(found)-1].Name != "app-199" {
				t.Errorf("%d are followed, want %d: %v, %v", len(found), test.followed, found, err)
			}
			if warned := len(seen.warnings) == 1 && seen.warnings[0].Reason == optin.InvalidCompat; warned != test.warned {
				t.Errorf("warned %+v", seen.warnings)
			}
		})
	}
}

// Someone who mistypes one name reads which; someone who lists two hundred gets no two hundred events.
func TestUnreferencedSourcesAreOneWarning(t *testing.T) {
	tests := map[string]struct {
		listed int
		about  string
		says   string
	}{
		"none": {}, "one": {1, "configmap/gone-0", "lists configmap/gone-0, which"}, "two": {2, "/", "lists configmap/gone-0, configmap/gone-1, which"},
		"many": {200, "/", "configmap/gone-4 and 195 more, which the pod template does not refer to"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			selection := optin.Selection{Unused: []pin.Source{gen.Source("secret/db")}}
			for i := range test.listed {
				selection.Unused = append(selection.Unused, gen.Source(fmt.Sprintf("configmap/gone-%d", i)))
			}
			seen := newObserved(gen.Namespace, view{})
			// The template refers to a Secret, which is not enabled.
			(&Engine{}).warnUntracked(seen, []podspec.Use{{Source: gen.Source("secret/db")}}, selection)
			if len(seen.warnings) != min(test.listed, 1) {
				t.Fatalf("%d warnings", len(seen.warnings))
			}
			if test.listed > 0 && (!strings.Contains(seen.warnings[0].Text, test.says) || seen.warnings[0].Source.String() != test.about) {
				t.Errorf("about %s: %q", seen.warnings[0].Source, seen.warnings[0].Text)
			}
		})
	}
}
