//go:build chaos

package chaos

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
)

// notSeen complains while confrev has not noted what a workload in mode restart had when it opted in: what was edited before then restarts
// nothing, since opting in is not a rollout. Its webhook notes that within the request, unless it is too late.
func (p *play) notSeen() string {
	for _, r := range p.workloads() {
		obj, err := p.read(r)
		if err != nil {
			return err.Error()
		}
		annotations := obj.GetAnnotations()
		if annotations[keys.Track] != "all" || annotations[keys.Mode] != "restart" {
			continue
		}
		noted := annotations[keys.Hashes] + field(templateOf(obj), "metadata", "annotations", keys.Hashes)
		for _, use := range cast[r] {
			if !strings.Contains(noted, string(use.source)+"=") {
				return fmt.Sprintf("%s: nothing is noted of %s", r, use.source)
			}
		}
	}
	return ""
}

// notRestarted complains while a workload in mode restart still has pins of its sources, has not restarted with what they contain now, or has pods that
// are not of its template.
func (p *play) notRestarted(obj *unstructured.Unstructured) string {
	template := templateOf(obj)
	restarted, err := pin.ParseHashes(field(template, "metadata", "annotations", keys.Hashes))
	if err != nil {
		return err.Error()
	}
	noted, err := pin.ParseHashes(obj.GetAnnotations()[keys.Hashes])
	if err != nil {
		return err.Error()
	}
	for _, use := range cast[refOf(obj)] {
		if strings.Contains(pinsText(template), string(use.source)+"=") {
			return "still has pins: " + pinsText(template)
		}
		want, err := p.hashOf(use)
		if err != nil {
			return err.Error()
		}
		got, ok := restarted[use.source.source()]
		if first := noted[use.source.source()]; !ok && first.Number == 1 {
			// A source that pods require, and that was missing when confrev first looked, is noted when it appears, and no restart follows: its
			// first hash is then on the workload alone.
			got = first
		}
		if got.Revision != want {
			return fmt.Sprintf("restarted with %q of %s, which has %q", got.Revision, use.source, want)
		}
	}
	return p.podsLack(obj)
}

// hashOf returns what a workload in mode restart notes of what it uses of a source.
func (p *play) hashOf(u use) (string, error) {
	obj, err := p.read(u.source)
	if err != nil {
		return "", err
	}
	name := u.source.source()
	if name.Kind == pin.ConfigMap {
		var configMap corev1.ConfigMap
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &configMap)
		return content.FromConfigMap(&configMap).Digests().Sum(u.key == "", []string{u.key}), err
	}
	var secret, random corev1.Secret
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &secret); err != nil {
		return "", err
	}
	if err := p.client.Get(p.Ctx, client.ObjectKey{Namespace: p.NS, Name: keys.KeySecret}, &random); err != nil {
		return "", err
	}
	key, err := content.NewKey(random.Data["key"])
	if err != nil {
		return "", err
	}
	digests := key.Digests(name, content.FromSecret(&secret).Digests())
	return key.Sum(name, digests.Sum(u.key == "", []string{u.key})), nil
}
