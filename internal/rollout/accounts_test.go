package rollout

import (
	"context"
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/account"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// Rule 10: where pods may not use revisions of Secrets, Secrets are not pinned; ConfigMaps are.
func TestAnAccountThatLimitsSecrets(t *testing.T) {
	limiting := func(name, value string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
			Namespace: gen.Namespace, Name: name, Annotations: map[string]string{account.EnforceMountableSecrets: value}}}
	}
	of := func(name string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) { d.Spec.Template.Spec.ServiceAccountName = name }
	}
	tests := map[string]struct {
		account *corev1.ServiceAccount
		of      string
		refused error
		limited bool
		failed  bool
	}{
		"none is there": {of: "web"},
		"it enforces":   {account: limiting("web", "true"), of: "web", limited: true},
		"it does not":   {account: limiting("web", "false"), of: "web"},
		"what the API server does not understand": {account: limiting("web", "yes"), of: "web"},
		"another enforces":                        {account: limiting("web", "true"), of: "other"},
		"the one that pods have anyway":           {account: limiting("default", "true"), limited: true},
		"confrev may not look":                    {of: "web", refused: apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, "web", nil)},
		"the API server fails":                    {of: "web", refused: errors.New("no"), failed: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{gen.App("a"), gen.Secret("db", corev1.SecretTypeOpaque, map[string][]byte{"password": []byte("x")})}
			if test.account != nil {
				objects = append(objects, test.account)
			}
			w := newAdmissionWorld(t, workload.Deployment, objects...)
			w.Options.Secrets = true
			w.Accounts = account.New(interceptor.NewClient(w.client, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					if test.refused != nil {
						return test.refused
					}
					return c.Get(ctx, key, obj, opts...)
				},
			}), time.Now)
			d := gen.Deployment("web", gen.Tracking("all"), gen.Template(gen.EnvFrom("configmap/app"), gen.EnvFrom("secret/db")), of(test.of))
			d.UID, d.Generation = "", 0
			_, said, err := w.ask(t.Context(), d.DeepCopy(), nil, false)
			if (err != nil) != test.failed {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			got := w.admitted(t, d, nil, false).(*appsv1.Deployment)
			pins, err := pin.Parse(got.Spec.Template.Annotations[keys.Pins])
			if err != nil || pins[gen.Source("configmap/app")] == (pin.Pin{}) || (pins[gen.Source("secret/db")] == pin.Pin{}) != test.limited {
				t.Errorf("pins %q, %v", pins, err)
			}
			if limited := len(said) == 1 && said[0].Reason == notice.SecretsLimited; limited != test.limited {
				t.Errorf("said %+v", said)
			}
		})
	}
}

// Many workloads of one account cost one request.
func TestAnAccountIsReadOnceInAWhile(t *testing.T) {
	w := newAdmissionWorld(t, workload.Deployment)
	now := gen.Created.Time
	a := account.New(w.client, func() time.Time { return now })
	for after, want := range []int{1, 1, 1, 2, 2} {
		now = gen.Created.Add(time.Duration(after) * 4 * time.Second)
		if _, err := a.Enforces(t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}); err != nil || w.reads != want {
			t.Errorf("after %s: %d reads, want %d, %v", now.Sub(gen.Created.Time), w.reads, want, err)
		}
	}
}
