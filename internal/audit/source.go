package audit

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// Source is what the metadata of a ConfigMap or Secret shows.
type Source struct {
	Ref
	Created time.Time
	// Revision is true for a revision of confrev, whose content never changes.
	Revision bool
	// Immutable is true if a client has set the field "immutable".
	Immutable bool
	// Never is why a workload should not roll out for it (rule 10); empty if it may.
	Never string

	owned, autonamed bool
	// owners are those that may opt it in.
	owners  []types.UID
	entries []entry
	version version
}

// entry is what one entry of managed fields says about content.
type entry struct {
	// at is zero if it has no time.
	at time.Time
	// content is true if the client wrote content, or applied a manifest and thereby may have removed some.
	content bool
	// keys are those that it wrote last.
	keys map[string]bool
}

// autonamed is the annotation of objects to which Pulumi gave a name with a random end.
const autonamed = "pulumi.com/autonamed"

// NewSource returns what metadata shows of a source. revision says that it is one of confrev.
func NewSource(kind pin.Kind, meta *metav1.PartialObjectMetadata, revision bool) Source {
	name := pin.Source{Kind: kind, Name: meta.Name}
	traits, _ := optin.Compat{}.Describe(name, meta)
	s := Source{
		Ref: Ref{meta.Namespace, name}, Created: meta.CreationTimestamp.Time, Revision: revision, Never: traits.Never,
		owned: len(meta.OwnerReferences) > 0, owners: optin.Owners(meta), autonamed: meta.Annotations[autonamed] == "true", version: versionOf(meta),
	}
	for i := range meta.ManagedFields {
		e, immutable := entryOf(&meta.ManagedFields[i])
		s.entries = append(s.entries, e)
		s.Immutable = s.Immutable || immutable
	}
	return s
}

// fieldsV1 is the part of managed fields that is about content.
type fieldsV1 struct {
	Data       map[string]json.RawMessage `json:"f:data"`
	BinaryData map[string]json.RawMessage `json:"f:binaryData"`
	StringData map[string]json.RawMessage `json:"f:stringData"`
	Immutable  json.RawMessage            `json:"f:immutable"`
	Metadata   struct {
		Annotations map[string]json.RawMessage `json:"f:annotations"`
	} `json:"f:metadata"`
}

// entryOf reads an entry of managed fields. What cannot be read counts as content that was written at an unknown time.
func entryOf(managed *metav1.ManagedFieldsEntry) (e entry, immutable bool) {
	var fields fieldsV1
	if managed.FieldsV1 == nil || json.Unmarshal(managed.FieldsV1.GetRawBytes(), &fields) != nil {
		return entry{content: true}, false
	}
	if managed.Time != nil {
		e.at = managed.Time.Time
	}
	e.keys = map[string]bool{}
	for _, written := range []map[string]json.RawMessage{fields.Data, fields.BinaryData, fields.StringData} {
		e.content = e.content || written != nil
		for key := range written {
			if len(key) > 2 {
				e.keys[key[len("f:"):]] = true
			}
		}
	}
	// "kubectl apply" may have removed keys, which no entry shows.
	_, applied := fields.Metadata.Annotations["f:"+corev1.LastAppliedConfigAnnotation]
	e.content = e.content || applied
	return e, fields.Immutable != nil
}

// Changed returns when the content of a source last changed, if its managed fields record it.
func Changed(kind pin.Kind, meta *metav1.PartialObjectMetadata) (at time.Time, known bool) {
	source := NewSource(kind, meta, false)
	at, why := source.changed(nil)
	return at, why == ""
}

// changed returns when the keys that a container reads last changed, as far as managed fields record it; nil means all keys. If that
// is not known, why says so, and the time is the earliest that it may be (rule 26).
func (s *Source) changed(keys []string) (at time.Time, why string) {
	writers := s.writersOf(keys)
	if len(writers) == 0 {
		return s.Created, "its managed fields do not say who wrote its content"
	}
	at = s.Created
	for _, e := range writers {
		if e.at.IsZero() {
			why = "its managed fields do not say when its content was written"
		}
		at = later(at, e.at)
	}
	return at, why
}

// writersOf returns the entries of the clients that wrote keys. If no entry has one of the keys, a client may have removed it, so all
// clients that wrote content count.
func (s *Source) writersOf(keys []string) []entry {
	writers := slices.DeleteFunc(slices.Clone(s.entries), func(e entry) bool { return !e.content })
	if keys == nil {
		return writers
	}
	var those []entry
	for _, key := range keys {
		found := false
		for _, e := range writers {
			if e.keys == nil || e.keys[key] {
				those, found = append(those, e), true
			}
		}
		if !found {
			return writers
		}
	}
	return those
}

// recorded returns the last time that anything in the metadata shows.
func (s *Source) recorded() time.Time {
	at := s.Created
	for _, e := range s.entries {
		at = later(at, e.at)
	}
	return at
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
