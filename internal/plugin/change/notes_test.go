package change

import (
	"slices"
	"testing"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/waiting"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// An owner by itself opts nothing in, so the source is listed, unless the workload follows it anyway or wants nothing.
func TestWhatATrackingWorkloadListsOfWhatItOwns(t *testing.T) {
	app := gen.Source("configmap/app")
	for name, test := range map[string]struct {
		before string
		want   string
		err    string
	}{
		"nothing yet":    {"", "configmap/app", ""},
		"another source": {"secret/db", "configmap/app,secret/db", ""},
		"it is listed":   {"configmap/app", "configmap/app", ""},
		"all":            {"all", "all", ""},
		"opted out":      {"none", "", "is opted out of everything"},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{}
			if test.before != "" {
				annotations[keys.Track] = test.before
			}
			track := optin.Read(optin.Metadata{Annotations: annotations}, optin.Defaults{}).Track
			if got, err := withOwned(web(test.before), test.before, track, app); got != test.want || !says(err, test.err) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestWhatTrackingLeadsTo(t *testing.T) {
	pinned, fresh := gen.PinOfApp("a", "1"), []string{"a controller pins configmap/app at once, which is a rollout"}
	two := []gen.DeploymentModifier{gen.Template(gen.EnvFrom("configmap/app"), gen.EnvFrom("secret/db"))}
	with := func(policy string) client.Object {
		app := gen.App("a")
		app.Annotations = map[string]string{keys.Policy: policy}
		return app
	}
	generated := gen.App("a")
	generated.Annotations = map[string]string{"control-plane.alpha.kubernetes.io/leader": "{}"}
	certificate := gen.Secret("db", "Opaque", nil)
	certificate.Annotations = map[string]string{"cert-manager.io/certificate-name": "db"}
	for name, test := range map[string]struct {
		track string
		web   []gen.DeploymentModifier
		want  []string
		// source is one of the sources; secrets is true if the controller handles Secrets.
		source  client.Object
		secrets bool
	}{
		"a first pin":                     {track: "all", want: fresh},
		"pinned already":                  {track: "all", web: []gen.DeploymentModifier{gen.Pinned(pinned)}},
		"in mode restart":                 {track: "all", web: []gen.DeploymentModifier{gen.Annotated(keys.Mode, "restart")}},
		"what it does not use":            {track: "configmap/app,secret/db", want: append(slices.Clone(fresh), "the pod template does not refer to secret/db, so tracking it has no effect")},
		"nothing any more":                {track: "none", web: []gen.DeploymentModifier{gen.Pinned(pinned)}, want: []string{"pins stay, and pods continue to use them: " + pinned}},
		"nothing, with no pins":           {track: "none"},
		"a Secret, too":                   {track: "all", web: two, want: []string{"a controller pins configmap/app, secret/db at once, which is a rollout"}, secrets: true},
		"a Secret that is not handled":    {track: "all", web: two, want: append(slices.Clone(fresh), "secret/db is not pinned: the controller does not handle Secrets (--secrets)")},
		"a source that is read live":      {track: "all", source: with("live"), want: []string{"configmap/app is not pinned: confrev.io/policy: live; pods read the source itself"}},
		"a source that is ignored":        {track: "all", source: with("ignore"), want: []string{"configmap/app is not pinned: confrev.io/policy: ignore; pods read the source itself"}},
		"a source that rotates":           {track: "all", source: with("rotate"), want: []string{"configmap/app is not pinned: confrev.io/policy: rotate; pods read the source itself"}},
		"a certificate":                   {track: "all", web: two, source: certificate, secrets: true, want: append(slices.Clone(fresh), "secret/db is not pinned: confrev.io/policy: rotate; pods read the source itself")},
		"a source that is always written": {track: "all", source: generated, want: []string{"configmap/app is not pinned: never copied: it is the lock of a leader election"}},
	} {
		t.Run(name, func(t *testing.T) {
			target := session.Target{Kind: workload.Deployment, Object: gen.Web("app:1", test.web...)}
			target.Installation.Options.Secrets = test.secrets
			builder := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme)
			if test.source != nil {
				builder = builder.WithObjects(test.source)
			}
			if got := consequences(t.Context(), builder.Build(), target, test.track); !slices.Equal(got, test.want) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// What does not move by hand names the command that moves it.
func TestWhyUnmoved(t *testing.T) {
	one, two := pin.Pin{Revision: "app-a", Number: 1}, pin.Pin{Revision: "app-b", Number: 2}
	for verdict, want := range map[plan.Verdict]string{
		plan.InSync:   "has its present content already (revision 1)",
		plan.Held:     "held at revision 1: it was rolled back from this content; to continue: kubectl confrev resume deployment/web -n default",
		plan.Waiting:  "waits at revision 1 for a deploy (annotation confrev.io/advance); to roll it out: kubectl confrev advance deployment/web -n default",
		plan.Advanced: "is about to be rolled out by the controller",
		plan.Unknown:  "could not be looked at",
	} {
		d := plan.Decision{Source: gen.Source("configmap/app"), Verdict: verdict, From: one, To: one, Current: two}
		if verdict == plan.Waiting {
			d.Wait = waiting.Wait{Reason: waiting.OnDeploy, By: "annotation confrev.io/advance"}
		}
		if got := whyUnmoved(web("all"), d); got != want {
			t.Errorf("%s: %q", verdict, got)
		}
	}
}
