package gen

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/keys"
)

// Form is an object that has the form of a revision, or lacks a part of it.
type Form struct {
	ConfigMap *corev1.ConfigMap
	// Is is true when it has the form.
	Is bool
	// Mutable is true when nothing is missing but that the data is immutable.
	Mutable bool
}

// RevisionForms returns objects that have the form of a revision, or lack a part of it, by what it is. Go and the guards' policy
// must tell the same ones to have it (rule 20).
func RevisionForms() map[string]Form {
	hash := "v1-" + strings.Repeat("a2", 26)
	long := strings.Repeat("long.name-", 25)
	form := func(is bool, name, source, label string) Form {
		cm := ConfigMap(name, map[string]string{"k": "v"})
		cm.UID, cm.ResourceVersion = "", ""
		cm.Labels, cm.Annotations, cm.Immutable = map[string]string{}, map[string]string{}, new(true)
		if label != "-" {
			cm.Labels[keys.Content] = label
		}
		if source != "-" {
			cm.Annotations[keys.SourceName] = source
		}
		return Form{ConfigMap: cm, Is: is}
	}
	mutable := form(false, "mutable-bcdfghjklm", "mutable", hash)
	mutable.ConfigMap.Immutable, mutable.Mutable = nil, true
	thawed := form(false, "thawed-bcdfghjklm", "thawed", hash)
	thawed.ConfigMap.Immutable, thawed.Mutable = new(false), true
	return map[string]Form{
		"all of it":                     form(true, "app-bcdfghjklm", "app", hash),
		"a source with dashes and dots": form(true, "a.b-c-2456789zxw", "a.b-c", hash),
		"a long source, cut":            form(true, strings.Repeat("long.name-", 24)+"lo-bcdfghjklm", long, hash),
		"a long source, cut at a dash":  form(true, strings.Repeat("a", 240)+"-bcdfghjklm", strings.Repeat("a", 240)+"-.-.-b", hash),
		"the longest that is not cut":   form(true, strings.Repeat("a", 242)+"-bcdfghjklm", strings.Repeat("a", 242), hash),
		"no label":                      form(false, "unlabelled-bcdfghjklm", "unlabelled", "-"),
		"an empty label":                form(false, "empty-bcdfghjklm", "empty", ""),
		"a label that is no hash":       form(false, "garbage-bcdfghjklm", "garbage", "v1-x"),
		"a label that is too long":      form(false, "longer-bcdfghjklm", "longer", hash+"a"),
		"a label in upper case":         form(false, "upper-bcdfghjklm", "upper", strings.ToUpper(hash)),
		"a keyed hash":                  form(true, "keyed-bcdfghjklm", "keyed", "k1-abcdefg"+hash[2:]),
		"too short an id of a key":      form(false, "shortid-bcdfghjklm", "shortid", "k1-abcdef"+hash[2:]),
		"a key of another version":      form(false, "otherkey-bcdfghjklm", "otherkey", "k9-abcdefg"+hash[2:]),
		"another version":               form(false, "other-bcdfghjklm", "other", "v9"+hash[2:]),
		"no source":                     form(false, "sourceless-bcdfghjklm", "-", hash),
		"an empty source":               form(false, "a-bcdfghjklm", "", hash),
		"another source":                form(false, "web-bcdfghjklm", "app", hash),
		"a source of two lines":         form(false, "lines-bcdfghjklm", "lines\n", hash),
		"a source with other letters":   form(false, "letters-bcdfghjklm", "Letters", hash),
		"a vowel in the name":           form(false, "vowel-bcdfghjkla", "vowel", hash),
		"too short a name":              form(false, "short-bcdfghjkl", "short", hash),
		"too long a name":               form(false, "toolong-bcdfghjklmn", "toolong", hash),
		"no dash":                       form(false, "dashlessbcdfghjklm", "dashless", hash),
		"the source's name":             form(false, "itself", "itself", hash),
		"mutable":                       mutable,
		"expressly mutable":             thawed,
	}
}
