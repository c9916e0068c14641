//go:build node

package node

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// configDir is below which the probe's volumes are.
const configDir = "/cfg"

// option changes a Deployment that is about to be created.
type option func(*appsv1.Deployment)

// probe makes a Deployment with one pod on the real node, whose container tells what it reads. Sources are written as
// pins write them: "configmap/app", "secret/db".
func probe(name string, options ...option) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: new(int64(1)),
					Containers: []corev1.Container{{
						Name: "app", Image: env.ProbeImage, ImagePullPolicy: corev1.PullNever, Args: []string{configDir},
					}},
				},
			},
		},
	}
	env.OnRealNode(&d.Spec.Template.Spec)
	for _, option := range options {
		option(d)
	}
	return d
}

func replicas(n int32) option {
	return func(d *appsv1.Deployment) { d.Spec.Replicas = &n }
}

// byVolume mounts a source; see volumePath.
func byVolume(source string) option {
	return func(d *appsv1.Deployment) {
		spec := &d.Spec.Template.Spec
		gen.Volume(source)(spec)
		mountLast(spec, path.Join(configDir, source))
	}
}

// byProjected mounts the keys of several sources as one volume; see projectedPath.
func byProjected(sources ...string) option {
	return func(d *appsv1.Deployment) {
		var parts []corev1.VolumeProjection
		for _, source := range sources {
			parts = append(parts, gen.Part(source))
		}
		spec := &d.Spec.Template.Spec
		gen.Projected(parts...)(spec)
		mountLast(spec, path.Join(configDir, "projected"))
	}
}

func mountLast(spec *corev1.PodSpec, at string) {
	mount := corev1.VolumeMount{Name: spec.Volumes[len(spec.Volumes)-1].Name, MountPath: at}
	spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts, mount)
}

// volumePath is where the probe finds a key of a source that byVolume mounts.
func volumePath(source, key string) string { return path.Join(configDir, source, key) }

// projectedPath is where the probe finds a key of byProjected's sources.
func projectedPath(key string) string { return path.Join(configDir, "projected", key) }

// byEnv gives the container one key of a source as a variable. The probe tells those whose names begin with CFG_.
func byEnv(variable, source, key string) option {
	return func(d *appsv1.Deployment) {
		spec := &d.Spec.Template.Spec
		gen.Env(source, key)(spec)
		vars := spec.Containers[0].Env
		vars[len(vars)-1].Name = variable
	}
}

// byEnvFrom gives the container all keys of a source as variables CFG_ALL_<key>.
func byEnvFrom(source string) option {
	return func(d *appsv1.Deployment) {
		spec := &d.Spec.Template.Spec
		gen.EnvFrom(source)(spec)
		from := spec.Containers[0].EnvFrom
		from[len(from)-1].Prefix = "CFG_ALL_"
	}
}

// configMap makes a ConfigMap of key, value, key, value, ….
func configMap(name string, data ...string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: pairs(data)}
}

// secret makes a Secret of key, value, key, value, ….
func secret(name string, data ...string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: pairs(data)}
}

func pairs(list []string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(list); i += 2 {
		m[list[i]] = list[i+1]
	}
	return m
}

// reading is what a container really got: variables by name, files by path.
type reading struct {
	Env   map[string]string `json:"env"`
	Files map[string]string `json:"files"`
}

// readings gives all that a pod's current container has told, or with previous, the one before. The first is what it
// started with; others follow when files change.
func (w *world) readings(pod string, args ...string) ([]reading, error) {
	w.Helper()
	out, err := cluster.Logs(w.ctx, w.ns, pod, args...)
	if err != nil {
		return nil, err
	}
	var all []reading
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "{") {
			continue // its last words, on standard error
		}
		var r reading
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("the probe in %s printed %q: %w", pod, line, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// startedWith gives what a pod's current container started with.
func (w *world) startedWith(pod corev1.Pod) reading {
	w.Helper()
	return w.firstReading(pod.Name)
}

// previouslyStartedWith gives what the container before the current one started with.
func (w *world) previouslyStartedWith(pod corev1.Pod) reading {
	w.Helper()
	return w.firstReading(pod.Name, "--previous")
}

func (w *world) firstReading(pod string, args ...string) reading {
	w.Helper()
	var first reading
	w.eventually("what "+pod+" read", func() string {
		all, err := w.readings(pod, args...)
		if err != nil {
			return err.Error()
		}
		if len(all) == 0 {
			return "it has told nothing"
		}
		first = all[0]
		return ""
	})
	return first
}

// waitReads waits until a pod's current container sees a file with that content.
func (w *world) waitReads(pod corev1.Pod, file, content string) {
	w.Helper()
	w.eventually(fmt.Sprintf("%s reads %q in %s", pod.Name, content, file), func() string {
		all, err := w.readings(pod.Name)
		if err != nil {
			return err.Error()
		}
		if len(all) == 0 || all[len(all)-1].Files[file] != content {
			return fmt.Sprintf("it has read %v", all)
		}
		return ""
	})
}
