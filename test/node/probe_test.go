//go:build node

package node

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// configDir is below which the probe's volumes are.
const configDir = "/cfg"

// option changes a pod that is about to be made. Sources are written as pins write them: "configmap/app", "secret/db".
type option = gen.PodSpecModifier

// probe makes a pod on the real node, whose container prints what it reads.
func probe(options ...option) corev1.PodSpec {
	spec := corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []corev1.Container{{
			Name: "app", Image: env.ProbeImage, ImagePullPolicy: corev1.PullNever, Args: []string{configDir},
		}},
	}
	env.OnRealNode(&spec)
	for _, option := range options {
		option(&spec)
	}
	return spec
}

// byVolume mounts a source; see volumePath.
func byVolume(source string, options ...gen.RefOption) option {
	return mounted(gen.Volume(source, options...), corev1.VolumeMount{MountPath: volumePath(source, "")})
}

// bySubPath mounts one key of a source as a file; see subPath.
func bySubPath(source, key string) option {
	return mounted(gen.Volume(source), corev1.VolumeMount{MountPath: subPath(source, key), SubPath: key})
}

// byProjected mounts the keys of several sources as one volume; see projectedPath.
func byProjected(parts ...corev1.VolumeProjection) option {
	return mounted(gen.Projected(parts...), corev1.VolumeMount{MountPath: projectedPath("")})
}

// mounted adds a volume and mounts it into the container.
func mounted(volume option, mount corev1.VolumeMount) option {
	return func(spec *corev1.PodSpec) {
		volume(spec)
		mount.Name = spec.Volumes[len(spec.Volumes)-1].Name
		spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts, mount)
	}
}

// volumePath returns where the probe finds a key of a source that byVolume mounts.
func volumePath(source, key string) string { return path.Join(configDir, "volume", source, key) }

// subPath returns where the probe finds a key of a source that bySubPath mounts.
func subPath(source, key string) string { return path.Join(configDir, "subPath", source, key) }

// projectedPath returns where the probe finds a key of byProjected's sources.
func projectedPath(key string) string { return path.Join(configDir, "projected", key) }

// byEnv adds to the container one key of a source as a variable CFG_ENV_<key>. (The probe prints those that begin with CFG_.)
func byEnv(source, key string) option {
	return func(spec *corev1.PodSpec) {
		gen.Env(source, key)(spec)
		vars := spec.Containers[0].Env
		vars[len(vars)-1].Name = "CFG_ENV_" + key
	}
}

// byEnvFrom adds to the container all keys of a source as variables CFG_ENVFROM_<key>.
func byEnvFrom(source string, options ...gen.RefOption) option {
	return func(spec *corev1.PodSpec) {
		gen.EnvFrom(source, options...)(spec)
		from := spec.Containers[0].EnvFrom
		from[len(from)-1].Prefix = "CFG_ENVFROM_"
	}
}

// inInit makes an init container, which refers to all that the container has referred to so far, and prints what it reads
// too.
func inInit(spec *corev1.PodSpec) {
	first := spec.Containers[0].DeepCopy()
	first.Name = "init"
	first.Args = append([]string{"once"}, first.Args...)
	spec.InitContainers = append(spec.InitContainers, *first)
}

// createSources creates what everyWay reads, with the value blue.
func (w *world) createSources() {
	w.Helper()
	w.Create(configMap("app", "mode", "blue"), gen.Unsaved(gen.Secret("db", corev1.SecretTypeOpaque, map[string][]byte{"password": []byte("blue")})))
}

// editSources sets both sources to a value.
func (w *world) editSources(value string) {
	w.Helper()
	w.Edit("app", "mode", value)
	w.EditSecret("db", "password", value)
}

// everyWay reads these sources in every way in which a pod can refer to them.
func everyWay(spec *corev1.PodSpec) {
	for _, option := range []option{
		byVolume("configmap/app"), bySubPath("configmap/app", "mode"), byEnv("configmap/app", "mode"), byEnvFrom("configmap/app"),
		byVolume("secret/db"), bySubPath("secret/db", "password"), byEnv("secret/db", "password"), byEnvFrom("secret/db"),
		byProjected(gen.Part("configmap/app"), gen.Part("secret/db")), inInit,
	} {
		option(spec)
	}
}

// everything returns what a container reads in every way, when the sources have that value. Names of variables and files tell
// the way.
func everything(value string) reading {
	return reading{
		Env: map[string]string{
			"CFG_ENV_mode": value, "CFG_ENVFROM_mode": value,
			"CFG_ENV_password": value, "CFG_ENVFROM_password": value,
		},
		Files: map[string]string{
			volumePath("configmap/app", "mode"): value, subPath("configmap/app", "mode"): value, projectedPath("mode"): value,
			volumePath("secret/db", "password"): value, subPath("secret/db", "password"): value, projectedPath("password"): value,
		},
	}
}

// startedWithEverything checks in what state of the sources a pod's containers were started.
func (w *world) startedWithEverything(what string, pod corev1.Pod, value string) {
	w.Helper()
	w.checkReading(what, w.startedWith(pod), everything(value))
	w.checkReading(what+", init container", w.startedWith(pod, "--container=init"), everything(value))
}

func (w *world) checkReading(what string, got, want reading) {
	w.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// configMap makes a ConfigMap of key, value, key, value, ….
func configMap(name string, data ...string) *corev1.ConfigMap {
	return gen.Unsaved(gen.ConfigMap(name, gen.Data(data...)))
}

// reading is what a container really got: variables by name, files by path.
type reading struct {
	Env   map[string]string `json:"env"`
	Files map[string]string `json:"files"`
}

// readings returns all that a pod's current container has printed, or with --previous, the one before. The first is what it started with;
// others follow when files change. args are those of kubectl logs.
func (w *world) readings(pod string, args ...string) ([]reading, error) {
	w.Helper()
	out, err := cluster.Kubectl(w.Ctx, append([]string{"--namespace", w.NS, "logs", pod}, args...)...)
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

// readBefore returns what the container before a pod's current one read. Each prints at least one reading, unless something ends it before: then
// the pod's status says what.
func (w *world) readBefore(pod corev1.Pod) (all []reading) {
	w.Helper()
	w.Eventually("what the container of "+pod.Name+" that ran before read", func() string {
		var err error
		if all, err = w.readings(pod.Name, "--previous"); err != nil {
			return err.Error()
		}
		if len(all) == 0 {
			now := w.Kubectl("get", "pod", pod.Name, "--output=jsonpath={.status.containerStatuses}")
			return fmt.Sprintf("nothing; it had restarted %d times, now: %s", restarts(pod), now)
		}
		return ""
	})
	return all
}

// startedWith returns what a pod's current container started with; args are as those of readings.
func (w *world) startedWith(pod corev1.Pod, args ...string) reading {
	w.Helper()
	var first reading
	w.Eventually("what "+pod.Name+" read", func() string {
		all, err := w.readings(pod.Name, args...)
		if err != nil {
			return err.Error()
		}
		if len(all) == 0 {
			return "it has printed nothing"
		}
		first = all[0]
		return ""
	})
	return first
}

// waitReads waits until a pod's current container sees a file with that content.
func (w *world) waitReads(pod corev1.Pod, file, content string) {
	w.Helper()
	w.Eventually(fmt.Sprintf("%s reads %q in %s", pod.Name, content, file), func() string {
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
