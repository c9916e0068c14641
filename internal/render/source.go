package render

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// place is a source together with its namespace.
type place struct {
	pin.Source
	namespace string
}

// source is a ConfigMap or Secret of the stream.
type source struct {
	*object
	pin.Source
	// others have the same name in the same namespace.
	others []*object
	// content is nil until it is needed.
	content *content.Content
	// revision is nil until something refers to the source.
	revision *revision
}

// revision is the immutable copy of a source, in the stream.
type revision struct {
	// name is its own name, original that of its source.
	name, original string
	// source is what it is a copy of; object is the copy, if it is in the stream already.
	source *source
	object *object
	// live is true if something other than a workload names it. Then it must not be deleted with the last workload.
	live bool
}

func (o *object) sourceKind() (kind pin.Kind, is bool) {
	switch o.gvk.GroupKind() {
	case corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind():
		return pin.ConfigMap, true
	case corev1.SchemeGroupVersion.WithKind("Secret").GroupKind():
		return pin.Secret, true
	}
	return "", false
}

func index(objects []*object) map[place]*source {
	sources := map[place]*source{}
	for _, o := range objects {
		kind, is := o.sourceKind()
		if !is || o.name == "" {
			continue
		}
		named := pin.Source{Kind: kind, Name: o.name}
		at := place{named, o.namespace}
		if first := sources[at]; first != nil {
			first.others = append(first.others, o)
			continue
		}
		sources[at] = &source{object: o, Source: named}
	}
	return sources
}

// read returns the source's content. Objects with the same name must have the same content.
func (s *source) read() (*content.Content, error) {
	if s.content != nil {
		return s.content, nil
	}
	read, err := s.object.content(s.Kind)
	if err != nil {
		return nil, err
	}
	for _, other := range s.others {
		again, err := other.content(s.Kind)
		if err != nil {
			return nil, err
		}
		if again.Hash() != read.Hash() {
			return nil, other.errorf("it is defined twice, with different content in %s:%d", s.document.file, s.document.line+s.node.Line-1)
		}
	}
	s.content = &read
	return s.content, nil
}

// content returns an object's content as the API server will store it.
func (o *object) content(kind pin.Kind) (content.Content, error) {
	values, err := o.values()
	if err != nil {
		return content.Content{}, err
	}
	data, err := json.Marshal(values.Object)
	if err != nil {
		return content.Content{}, err
	}
	if kind == pin.ConfigMap {
		configMap := &corev1.ConfigMap{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, configMap); err != nil {
			return content.Content{}, o.errorf("%v", err)
		}
		return content.FromConfigMap(configMap), nil
	}
	secret := &corev1.Secret{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, secret); err != nil {
		return content.Content{}, o.errorf("%v", err)
	}
	return content.FromSecret(stored(secret)), nil
}

// stored returns a Secret as the API server stores it (defaults and strategy of k8s.io/kubernetes/pkg/apis/core).
func stored(secret *corev1.Secret) *corev1.Secret {
	if secret.Type == "" {
		secret.Type = corev1.SecretTypeOpaque
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for key, value := range secret.StringData {
		secret.Data[key] = []byte(value)
	}
	return secret
}

// describe returns the traits of a source, and what is wrong with its annotations. Objects that rendering leaves alone for its
// own reasons count as never copied, too.
func (s *source) describe() (optin.Traits, []notice.Notice, error) {
	values, err := s.values()
	if err != nil {
		return optin.Traits{}, nil, err
	}
	traits, problems := optin.Compat{}.Describe(s.Source, values)
	if traits.Never == "" && s.Kind == pin.Secret {
		traits.Never = optin.NeverCopiedType(corev1.SecretType(text(s.node, "type")))
	}
	switch {
	case traits.Never != "":
	case isHook(values):
		traits.Never = "it is a hook of a deploy tool"
	case values.GetLabels()[keys.Content] != "":
		traits.Never = "it is a revision of confrev's own"
	case optin.Attachable(values) && values.GetAnnotations()[keys.SourceName] == "":
		traits.Never = "its name is already unique for each deploy"
	}
	return traits, problems, nil
}

// isHook reports whether an object is a hook that a deploy tool creates and deletes.
func isHook(meta metav1.Object) bool {
	annotations := meta.GetAnnotations()
	return annotations["helm.sh/hook"] != "" || annotations["argocd.argoproj.io/hook"] != ""
}

// revisionOf returns the revision of a source. Its name is the one that the controller chooses for the same content (rule 8).
func (r *renderer) revisionOf(s *source) (*revision, error) {
	if s.revision != nil {
		return s.revision, nil
	}
	read, err := s.read()
	if err != nil {
		return nil, err
	}
	values, err := s.values()
	if err != nil {
		return nil, err
	}
	made := &revision{name: s.Name, original: s.Name, source: s, object: s.object}
	switch original := values.GetAnnotations()[keys.SourceName]; {
	case original == "":
		if err := r.chooseName(made, *read); err != nil {
			return nil, err
		}
	case !content.Names(original, read.Hash(), s.Name):
		return nil, s.errorf("it was changed after it was rendered: change %s/%s instead, and render again", s.Kind, original)
	default:
		// An earlier rendering created it.
		made.original = original
	}
	s.revision = made
	r.revisions = append(r.revisions, made)
	return made, nil
}

// chooseName sets the revision's name to the first one that nothing else has.
func (r *renderer) chooseName(made *revision, of content.Content) error {
	for name := range content.RevisionNames(made.source.Name, of.Hash()) {
		made.name, made.object = name, nil
		taken := r.sources[place{pin.Source{Kind: of.Kind, Name: made.name}, made.source.namespace}]
		if taken == nil {
			return nil
		}
		other, err := taken.read()
		if err != nil {
			return err
		}
		if other.Hash() == of.Hash() {
			made.object = taken.object
			return nil
		}
	}
	return made.source.errorf("all names that its revision could have are taken by other objects; the last one tried is %s", made.name)
}

// notOfACopy are the fields of an object's metadata that come from a cluster and that a copy must not have.
var notOfACopy = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
	"managedFields", "selfLink", "generateName", "ownerReferences", "finalizers",
}

// notAnnotations are the annotations that come from a cluster, and those by which tools keep track of an object: on a copy, they
// would identify the wrong object.
var notAnnotations = []string{
	corev1.LastAppliedConfigAnnotation, keys.Attached, "argocd.argoproj.io/tracking-id", "config.k8s.io/owning-inventory",
	"config.kubernetes.io/index", "config.kubernetes.io/path", "config.kubernetes.io/id", "config.kubernetes.io/origin",
	"alpha.config.kubernetes.io/transformations", "kapp.k14s.io/identity", "kapp.k14s.io/original", "kapp.k14s.io/original-diff-md5",
}

// notAnnotationsOf are groups whose annotations are not copied, nor those of their subgroups: kustomize's and kpt's own notes,
// and annotations that restart what refers to the source, which would have no effect on a copy.
var notAnnotationsOf = []string{
	"internal.config.kubernetes.io", "internal.kpt.dev", "kustomize.config.k8s.io", "objectset.rio.cattle.io", "reloader.stakater.com",
}

// isAboutSource reports whether an annotation is about the source itself and not about its content.
func isAboutSource(annotation string) bool {
	group, _, _ := strings.Cut(annotation, "/")
	return slices.Contains(notAnnotations, annotation) ||
		slices.ContainsFunc(notAnnotationsOf, func(not string) bool { return group == not || strings.HasSuffix(group, "."+not) })
}

// write adds the revision to the stream after its source, or completes the one that is already there.
func (v *revision) write(keep []Tool) {
	o := v.object
	if o == nil {
		o = v.source.copyOf()
	}
	metadata := mapping(o.node, "metadata")
	if text(metadata, "labels", keys.Content) != "" {
		// The controller made it, and looks after it.
		return
	}
	if v.object == nil {
		put(metadata, "name", stringNode(v.name))
		remove(metadata, func(key string) bool { return slices.Contains(notOfACopy, key) })
		remove(child(metadata, "annotations"), isAboutSource)
		put(mapping(metadata, "labels"), keys.Source, stringNode(content.SourceLabel(v.original)))
		o.annotate(o.node, keys.SourceName, v.original)
	}
	if !v.live {
		o.annotate(o.node, keys.Attach, "true")
	}
	for _, tool := range keep {
		tool.keep(o)
	}
	if put(o.node, "immutable", &yaml.Node{Kind: yaml.ScalarNode, Tag: yaml.NodeTagBool, Value: "true"}) {
		o.document.changed = true
	}
}

// copyOf inserts a copy of an object after it.
func (o *object) copyOf() *object {
	made := *o
	made.node = yaml.CopyYNode(o.node)
	if o.list == nil {
		o.document.added = append(o.document.added, made.node)
		// The document stays as it is; the copy gets one of its own.
		made.document = &document{}
		return &made
	}
	o.list.Content = slices.Insert(o.list.Content, slices.Index(o.list.Content, o.node)+1, made.node)
	o.document.changed = true
	return &made
}
