package revision

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/gen"
)

func TestSecretRevisionHasTypeAndDataOnly(t *testing.T) {
	source := gen.Secret("db", corev1.SecretTypeTLS, map[string][]byte{"tls.crt": []byte("c"), "tls.key": {0xff}})
	source.Labels = map[string]string{"app.kubernetes.io/instance": "argo"}
	source.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "{}", keys.Policy: "revision", keys.ChangeCause: "rotated"}
	source.OwnerReferences = []metav1.OwnerReference{{Name: "certificate"}}
	source.Finalizers = []string{"example.com/keep"}
	seen := snapshotOf(source)
	owner := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "1"}

	name := content.RevisionName("db", seen.Hash, 0)
	got := object(source, seen, name, 2, owner)
	immutable := true
	digests, _ := seen.Digests.Text()
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: gen.Namespace, Name: name,
			Labels: map[string]string{keys.Source: "db", keys.Content: string(seen.Hash)},
			Annotations: map[string]string{
				keys.SourceName: "db", keys.Number: "2", keys.SourceVersion: "secret-db/1", keys.KeyDigests: digests, keys.ChangeCause: "rotated",
			},
			OwnerReferences: []metav1.OwnerReference{owner.reference()},
		},
		Immutable: &immutable, Type: corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": []byte("c"), "tls.key": {0xff}},
	}
	if diff := cmp.Diff(client.Object(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if snapshotOf(got).Hash != seen.Hash || !isImmutable(got) || isImmutable(source) || !IsRevision(got) {
		t.Error("it is no immutable copy of its source")
	}
	if SourceOf(pin.Secret, got) != gen.Source("secret/db") || !cmp.Equal(IndexBySource(pin.Secret)(got), []string{"secret/db"}) {
		t.Error("its source is not told")
	}
}

// What metadata tells of a Secret must not tell its values.
func TestSecretRevisionMetadataHasNoValues(t *testing.T) {
	const value = "correct-horse"
	source := gen.Secret("db", corev1.SecretTypeOpaque, map[string][]byte{"password": []byte(value)})
	got := object(source, snapshotOf(source), "db-xyz", 1)
	for _, texts := range []map[string]string{got.GetLabels(), got.GetAnnotations()} {
		for key, text := range texts {
			if strings.Contains(text, value) {
				t.Errorf("%s tells the value: %s", key, text)
			}
		}
	}
}

// Rule 10.
func TestSomeTypesOfSecretsAreNeverCopied(t *testing.T) {
	for secretType, want := range map[corev1.SecretType]bool{
		"": true, corev1.SecretTypeOpaque: true, corev1.SecretTypeTLS: true, corev1.SecretTypeDockerConfigJson: true,
		corev1.SecretTypeBasicAuth: true, "example.com/mine": true, "helm.sh/release.v2": true,
		corev1.SecretTypeServiceAccountToken: false, corev1.SecretTypeBootstrapToken: false, "helm.sh/release.v1": false,
	} {
		err := checkCopyable(gen.Secret("db", secretType, map[string][]byte{"k": []byte("hidden")}))
		if (err == nil) != want {
			t.Errorf("type %q: %v", secretType, err)
		}
		if err == nil {
			continue
		}
		terminal, ok := errors.AsType[*notice.TerminalError](err)
		if !ok || terminal.Reason != NeverCopied || !strings.Contains(err.Error(), "secret/db") || strings.Contains(err.Error(), "hidden") {
			t.Errorf("type %q: %+v", secretType, err)
		}
	}
	if err := checkCopyable(gen.ConfigMap("app", nil)); err != nil {
		t.Errorf("a ConfigMap: %v", err)
	}
}

// Rule 11: a Secret with too many keys is not remembered when its type is read either.
func TestATypeIsReadOfASecretWithTooManyKeys(t *testing.T) {
	for n, kept := range map[int]bool{MaxKeys: true, MaxKeys + 1: false} {
		source := gen.Secret("db", corev1.SecretTypeOpaque, map[string][]byte{})
		for i := range n {
			source.Data[fmt.Sprint("k", i)] = nil
		}
		source.UID, source.ResourceVersion = "uid", "1"
		c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(source).WithIndex(&corev1.Secret{}, BySource, IndexBySource(pin.Secret)).Build()
		store := NewStore(c, c, c, time.Now, appsKinds{}, 10)
		ref := Ref{pin.Secret, gen.Namespace, "db"}
		meta := Metadata(ref)
		if err := c.Get(t.Context(), ref.key(), meta); err != nil {
			t.Fatal(err)
		}
		if _, known, err := store.Rotates(t.Context(), nil, ref.Source(), meta, true); err != nil || !known {
			t.Errorf("with %d keys, its type is known: %v, %v", n, known, err)
		}
		if _, remembered := store.snapshots.Get(ref); remembered != kept {
			t.Errorf("with %d keys, they are remembered: %v", n, remembered)
		}
		_, err := store.Observe(t.Context(), ref, meta, "")
		if terminal, _ := errors.AsType[*notice.TerminalError](err); (terminal != nil && terminal.Reason == TooBig) == kept {
			t.Errorf("with %d keys: %v", n, err)
		}
	}
}
