//go:build e2e

package e2e

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/gen"
)

// ask sends an AdmissionReview to confrev as anything in a cluster can that reaches the port: without credentials.
func (w *world) ask(path string, request *admissionv1.AdmissionRequest) (code int, answer *admissionv1.AdmissionResponse, text string) {
	w.Helper()
	review, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request})
	w.Must(err)
	post, err := http.NewRequestWithContext(w.Ctx, http.MethodPost, confrev.Webhook+path, bytes.NewReader(review))
	w.Must(err)
	post.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	response, err := client.Do(post)
	w.Must(err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	w.Must(err)
	said := admissionv1.AdmissionReview{}
	if response.StatusCode == http.StatusOK {
		w.Must(json.Unmarshal(body, &said))
	}
	return response.StatusCode, said.Response, string(body)
}

// updateOf asks about a deploy of a new image.
func (w *world) updateOf(old *appsv1.Deployment, dryRun bool) *admissionv1.AdmissionRequest {
	w.Helper()
	kind := metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	resource := metav1.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	next := old.DeepCopy()
	next.Spec.Template.Spec.Containers[0].Image = "app:forged"
	next.Annotations[keys.Settle] = "oops"
	encode := func(d *appsv1.Deployment) runtime.RawExtension {
		raw, err := json.Marshal(d)
		w.Must(err)
		return runtime.RawExtension{Raw: raw}
	}
	return &admissionv1.AdmissionRequest{
		UID: "forged", Kind: kind, Resource: resource, Namespace: w.NS, Name: old.Name, Operation: admissionv1.Update,
		Object: encode(next), OldObject: encode(old), DryRun: &dryRun,
	}
}

// secretPath returns the path that API servers are told of.
func (w *world) secretPath() string {
	w.Helper()
	told, err := url.Parse(*w.pinWorkloads().Webhooks[0].ClientConfig.URL)
	w.Must(err)
	return told.Path
}

// Rule 18: who forges a review learns nothing, makes nothing and spends nothing.
func TestAForgedReviewLearnsNothing(t *testing.T) {
	w, a := deployed(t, gen.Annotated(keys.Advance, "on-deploy"))
	w.Edit("web", "color", "B")
	w.Barrier()
	old := w.Deployment("web")
	for _, path := range []string{"/pin-workloads", "/pin-workloads/", "/pin-workloads/guess", "/", w.secretPath() + "x"} {
		if code, _, text := w.ask(path, w.updateOf(old, false)); code != http.StatusNotFound || strings.Contains(text, "web-") {
			t.Errorf("%s answers %d: %s", path, code, text)
		}
	}
	// Even who knows the path is believed only about what the API server has.
	_, answer, _ := w.ask(w.secretPath(), w.updateOf(old, true))
	if len(answer.Patch) == 0 || len(answer.Warnings) == 0 {
		t.Fatalf("a review of what is live is not answered, so this test shows nothing: %+v", answer)
	}
	for what, forge := range map[string]func(*appsv1.Deployment){
		"another UID":             func(d *appsv1.Deployment) { d.UID = "00000000-0000-0000-0000-000000000000" },
		"another resourceVersion": func(d *appsv1.Deployment) { d.ResourceVersion = "1" },
		"another name":            func(d *appsv1.Deployment) { d.Name = "not-there" },
	} {
		forged := old.DeepCopy()
		forge(forged)
		for range 70 {
			_, answer, _ := w.ask(w.secretPath(), w.updateOf(forged, false))
			if !answer.Allowed || len(answer.Patch)+len(answer.Warnings) > 0 {
				t.Fatalf("%s: %+v", what, answer)
			}
		}
	}
	w.Barrier()
	if made := w.Revisions("web"); len(made) != 1 || made[0].Name != a.Revision {
		t.Errorf("%d revisions, want %s alone", len(made), a.Revision)
	}
	w.Kubectl("set", "image", "deployment/web", "app=app:2")
	w.WaitPinned("web", "web", "color", "B")
	if got := w.Events("ChangesTooOften", "web"); len(got) > 0 {
		t.Errorf("the budget was spent: %s", got)
	}
	log, err := os.ReadFile(confrev.Log)
	w.Must(err)
	if bytes.Contains(log, []byte(strings.TrimPrefix(w.secretPath(), "/pin-workloads/"))) {
		t.Error("the secret path is in the log")
	}
}
