package change

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/rollout"
)

const setVolumeLong = `Add a volume to the pod template of a workload and mount it, remove one, or list them all.

With --type, a volume is added and mounted at --mount-path; a volume of that name with the same content and settings is used as it is.
With --remove, the volume --name and all its mounts go. With neither, volumes are listed. A change to the template is a rollout.`

const setVolumeExample = `# Mount a ConfigMap
kubectl confrev set volume deployment/web -t configmap --configmap-name=app --mount-path=/etc/app

# Mount one key of a Secret as a file, in one container
kubectl confrev set volume deployment/web -t secret --secret-name=db --mount-path=/etc/db/user --sub-path=user --containers=app --read-only

# List them; remove one
kubectl confrev set volume deployment/web
kubectl confrev set volume deployment/web --remove --name=app`

type setVolume struct {
	onWorkload
	volumeRequest
	remove bool
}

func newSetVolume(p *session.Session) *cobra.Command {
	s, cmd := newVolumeSetter(p)
	return session.Command(cmd, s)
}

// newVolumeSetter returns the verb and its command, which does not run it yet.
func newVolumeSetter(p *session.Session) (*setVolume, *cobra.Command) {
	base, cmd := newOnWorkload(p, "volume WORKLOAD [-t TYPE --mount-path=PATH | --remove --name=NAME]",
		"Add, remove or list the volumes of a workload", setVolumeLong, setVolumeExample, "volumes updated")
	cmd.Aliases, cmd.ValidArgsFunction = []string{"volumes"}, p.CompleteWorkload
	s := &setVolume{onWorkload: base}
	flags := cmd.Flags()
	flags.StringVarP(&s.kind, "type", "t", "", "Type of the volume to add. One of: (configmap, secret, pvc, emptydir).")
	flags.StringVar(&s.name, "name", "", "Name of the volume. If empty, the name of what it mounts.")
	flags.StringVar(&s.configMap, "configmap-name", "", "Name of the ConfigMap to mount, with --type=configmap.")
	flags.StringVar(&s.secret, "secret-name", "", "Name of the Secret to mount, with --type=secret.")
	flags.StringVar(&s.claim, "claim-name", "", "Name of the PersistentVolumeClaim to mount, with --type=pvc.")
	flags.StringVar(&s.mountPath, "mount-path", "", "Path at which the containers find it.")
	flags.StringVar(&s.subPath, "sub-path", "", "Path within the volume to mount, such as one key.")
	flags.StringSliceVar(&s.containers, "containers", nil, "Containers to mount it in. If empty, all.")
	flags.BoolVar(&s.readOnly, "read-only", false, "If true, mount it read-only.")
	flags.BoolVar(&s.remove, "remove", false, "If true, remove the volume --name and its mounts.")
	return s, cmd
}

func (s *setVolume) Fill(cmd *cobra.Command, args []string) error {
	if _, rest, err := session.SplitArgs(args); err == nil && len(rest) > 0 {
		return fmt.Errorf("want one workload, have %d arguments more", len(rest))
	}
	if err := s.effective(cmd); err != nil {
		return err
	}
	return s.onWorkload.Fill(cmd, args)
}

// ofAdded are the flags that are only for a volume that is added.
var ofAdded = []string{"type", "configmap-name", "secret-name", "claim-name", "mount-path", "sub-path", "containers", "read-only"}

// effective refuses flags that would have no effect.
func (s *setVolume) effective(cmd *cobra.Command) error {
	i := slices.IndexFunc(ofAdded, cmd.Flags().Changed)
	switch {
	case s.remove && i >= 0:
		return fmt.Errorf("--remove and --%s exclude each other", ofAdded[i])
	case s.remove || s.kind != "":
		return nil
	case i >= 0:
		return fmt.Errorf("--%s is for a volume to add, and no --type is given: want configmap, secret, pvc or emptydir", ofAdded[i])
	case cmd.Flags().Changed("name"):
		return fmt.Errorf("--name is for a volume to add or remove: give --type or --remove")
	}
	return nil
}

func (s *setVolume) Run(ctx context.Context) error {
	return s.withTarget(ctx, s.run)
}

func (s *setVolume) run(ctx context.Context, c *session.Connection, found session.Target) error {
	template, err := found.Kind.Template(found.Object)
	if err != nil {
		return err
	}
	pins, _ := found.Kind.Pins(found.Object)
	written := podspec.Original(&template.Spec, pins)
	var ops []jsonpatch.Operation
	switch {
	case s.remove:
		ops, err = removeVolume(written, s.name)
	case s.kind != "":
		ops, err = s.add(written)
	default:
		return s.list(found, written)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", found, err)
	}
	if len(ops) == 0 {
		return s.unchanged(found.Object, "the volume is mounted there already")
	}
	obj, err := s.patch(ctx, c, found, ops)
	if err != nil {
		return err
	}
	return s.printed(obj, rollsOut(found, obj))
}

// patch changes the pod spec of a workload, if its spec is still as it was read: the operations count list items.
func (w *writing) patch(ctx context.Context, c *session.Connection, t session.Target, ops []jsonpatch.Operation) (client.Object, error) {
	all := []jsonpatch.Operation{
		jsonpatch.NewOperation("test", "/metadata/uid", t.Object.GetUID()), jsonpatch.NewOperation("test", "/metadata/generation", t.Object.GetGeneration()),
	}
	for _, op := range ops {
		op.Path = t.Kind.TemplatePointer() + "/spec" + op.Path
		all = append(all, op)
	}
	if w.dryRun == cmdutil.DryRunClient {
		return (&rollout.Engine{Kind: t.Kind}).Apply(t.Object, all)
	}
	data, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	obj := t.Object.DeepCopyObject().(client.Object)
	return obj, c.Patch(ctx, obj, client.RawPatch(types.JSONPatchType, data), &client.PatchOptions{FieldManager: w.fieldManager, DryRun: w.serverDryRun()})
}

// list prints the volumes of a template and where they are mounted.
func (s *setVolume) list(t session.Target, spec *corev1.PodSpec) error {
	if printer.Format(s.print) != "" {
		return s.printed(t.Object)
	}
	if _, err := fmt.Fprintln(s.Out, t); err != nil {
		return err
	}
	for _, volume := range spec.Volumes {
		lines := []string{fmt.Sprintf("%s as %s", describeVolume(volume), volume.Name)}
		for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
			for _, mount := range container.VolumeMounts {
				if mount.Name == volume.Name {
					lines = append(lines, "  "+describeMount(container.Name, mount))
				}
			}
		}
		if err := s.say(lines...); err != nil {
			return err
		}
	}
	return nil
}

func describeMount(container string, mount corev1.VolumeMount) string {
	text := fmt.Sprintf("mounted at %s in %s", mount.MountPath, container)
	if mount.SubPath != "" {
		text += ", only " + mount.SubPath
	}
	if mount.ReadOnly {
		text += ", read-only"
	}
	return text
}

// volumeRequest is a volume that is to be mounted.
type volumeRequest struct {
	kind, name, configMap, secret, claim, mountPath, subPath string
	containers                                               []string
	readOnly                                                 bool
}

func (r volumeRequest) add(spec *corev1.PodSpec) ([]jsonpatch.Operation, error) {
	volume, err := r.volume()
	if err != nil {
		return nil, err
	}
	if !path.IsAbs(r.mountPath) {
		return nil, fmt.Errorf("--mount-path=%s: want an absolute path", r.mountPath)
	}
	var ops []jsonpatch.Operation
	existing := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume.Name })
	switch {
	case existing < 0 && len(spec.Volumes) == 0:
		ops = append(ops, jsonpatch.NewOperation("add", "/volumes", []corev1.Volume{volume}))
	case existing < 0:
		ops = append(ops, jsonpatch.NewOperation("add", "/volumes/-", volume))
	case !sameVolume(spec.Volumes[existing], volume):
		is := describeVolume(spec.Volumes[existing])
		if is == describeVolume(volume) {
			return nil, fmt.Errorf("volume %s is %s already, with other settings; give another --name", volume.Name, is)
		}
		return nil, fmt.Errorf("volume %s is %s already; give another --name", volume.Name, is)
	}
	mounts, err := r.mounts(spec, corev1.VolumeMount{Name: volume.Name, MountPath: r.mountPath, SubPath: r.subPath, ReadOnly: r.readOnly})
	return append(ops, mounts...), err
}

// sameVolume reports whether two volumes have the same content. The API server sets modes that are left out.
func sameVolume(a, b corev1.Volume) bool {
	return equality.Semantic.DeepEqual(withoutDefaults(a), withoutDefaults(b))
}

func withoutDefaults(v corev1.Volume) corev1.VolumeSource {
	source := *v.VolumeSource.DeepCopy()
	unset := func(mode **int32, standard int32) {
		if *mode != nil && **mode == standard {
			*mode = nil
		}
	}
	if source.ConfigMap != nil {
		unset(&source.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	}
	if source.Secret != nil {
		unset(&source.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	}
	return source
}

// mounts returns the operations that mount a volume in the containers that are asked for.
func (r volumeRequest) mounts(spec *corev1.PodSpec, mount corev1.VolumeMount) ([]jsonpatch.Operation, error) {
	var ops []jsonpatch.Operation
	for _, name := range r.containers {
		if !slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == name }) {
			return nil, fmt.Errorf("it has no container %s", name)
		}
	}
	for i, container := range spec.Containers {
		if len(r.containers) > 0 && !slices.Contains(r.containers, container.Name) {
			continue
		}
		at := slices.IndexFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == mount.MountPath })
		list := fmt.Sprintf("/containers/%d/volumeMounts", i)
		switch {
		case at >= 0 && container.VolumeMounts[at].Name == mount.Name && container.VolumeMounts[at].SubPath == mount.SubPath &&
			container.VolumeMounts[at].ReadOnly == mount.ReadOnly:
		case at >= 0:
			return nil, fmt.Errorf("container %s has volume %s mounted at %s already", container.Name, container.VolumeMounts[at].Name, mount.MountPath)
		case len(container.VolumeMounts) == 0:
			ops = append(ops, jsonpatch.NewOperation("add", list, []corev1.VolumeMount{mount}))
		default:
			ops = append(ops, jsonpatch.NewOperation("add", list+"/-", mount))
		}
	}
	return ops, nil
}

func (r volumeRequest) volume() (corev1.Volume, error) {
	named := map[string]string{"configmap": r.configMap, "secret": r.secret, "pvc": r.claim, "emptydir": "scratch"}
	flags := map[string]string{"configmap": "--configmap-name", "secret": "--secret-name", "pvc": "--claim-name"}
	name, known := named[r.kind]
	if !known {
		return corev1.Volume{}, fmt.Errorf("--type=%s: want configmap, secret, pvc or emptydir", r.kind)
	}
	if name == "" {
		return corev1.Volume{}, fmt.Errorf("--type=%s needs %s", r.kind, flags[r.kind])
	}
	for kind, flag := range flags {
		if kind != r.kind && named[kind] != "" {
			return corev1.Volume{}, fmt.Errorf("%s does not go with --type=%s", flag, r.kind)
		}
	}
	volume := corev1.Volume{Name: r.name}
	if volume.Name == "" {
		volume.Name = strings.ReplaceAll(name, ".", "-")
	}
	if wrong := validation.IsDNS1123Label(volume.Name); len(wrong) > 0 {
		return volume, fmt.Errorf("%q is no name for a volume, give another with --name: %s", volume.Name, wrong[0])
	}
	switch r.kind {
	case "configmap":
		volume.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}
	case "secret":
		volume.Secret = &corev1.SecretVolumeSource{SecretName: name}
	case "pvc":
		volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}
	default:
		volume.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	return volume, nil
}

// removeVolume returns the operations that remove a volume and its mounts, the last of each list first.
func removeVolume(spec *corev1.PodSpec, name string) ([]jsonpatch.Operation, error) {
	if name == "" {
		return nil, fmt.Errorf("no volume given: name it with --name")
	}
	at := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("it has no volume %s", name)
	}
	ops := []jsonpatch.Operation{jsonpatch.NewOperation("remove", fmt.Sprintf("/volumes/%d", at), nil)}
	for list, containers := range map[string][]corev1.Container{"containers": spec.Containers, "initContainers": spec.InitContainers} {
		for i, container := range containers {
			for j, mount := range slices.Backward(container.VolumeMounts) {
				if mount.Name == name {
					ops = append(ops, jsonpatch.NewOperation("remove", fmt.Sprintf("/%s/%d/volumeMounts/%d", list, i, j), nil))
				}
			}
		}
	}
	return ops, nil
}

func describeVolume(v corev1.Volume) string {
	switch {
	case v.ConfigMap != nil:
		return "configmap/" + v.ConfigMap.Name
	case v.Secret != nil:
		return "secret/" + v.Secret.SecretName
	case v.PersistentVolumeClaim != nil:
		return "pvc/" + v.PersistentVolumeClaim.ClaimName
	case v.EmptyDir != nil:
		return "emptydir"
	case v.Projected != nil:
		return "projected"
	}
	return "another type"
}
