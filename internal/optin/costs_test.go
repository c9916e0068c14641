package optin_test

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// size is how long the texts of these tests are. All annotations of an object together may have four times as much.
const size = 64_000

// hostile returns texts that cost much if every part of them is kept.
func hostile() map[string]string {
	fill := func(item string) string { return strings.Repeat(item, size/len(item)) }
	numbered := func(form string) string {
		var b strings.Builder
		for i := 0; b.Len() < size-300; i++ {
			fmt.Fprintf(&b, form, i)
		}
		return b.String()
	}
	return map[string]string{
		"commas": fill(","), "semicolons": fill(";"), "spaces": fill(" "), "commas and spaces": fill(" ,"), "bytes of no character": fill("\xff,"), "letters": fill("a,"),
		"one long word": fill("a"), "digits": fill("9"), "numbers": fill("1,"), "words": fill("a "), "windows": fill("0 0 * * * 1h;"), "a long window": fill("0,") + "0 0 * * * 1h",
		"sources": numbered("configmap/a%d,"), "sources of another namespace": numbered("b/a%d,"), "names": numbered("a%d,"), "slips": numbered("A_%d(,"), "braces": fill("{,},"),
		"the same source": fill("secret/a,"), "fields": numbered("persistentvolumeclaims.v1/data{.a%d},"), "pins": numbered("configmap/a=a-bbbbbbbbbb@%d,"),
		"repetitions": fill("a{900},"), "repetitions of classes": numbered("(?:[a-z0-9-]{60}){16}%d,"), "classes": fill(`[\pL\pN][^\pL\pN],`), "folded classes": fill(`(?i)[B-\x{1e942}],`),
		"the largest expressions": numbered("(?:[^acegikmoqsuwy02468]x|[acegikmoqsuwy02468]y){24}%d,"), "many alternatives": numbered(strings.Repeat("[a-z]b|", 30) + "%d,"),
		"the longest windows": strings.Repeat(strings.Repeat("0,", 240)+"0 0 * * * 1h;", 16),
	}
}

// allocated returns how many bytes a function allocates. Others may allocate meanwhile, so more than most has to be seen several times.
func allocated(most uint64, do func()) uint64 {
	least := uint64(math.MaxUint64)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		if least = min(least, after.TotalAlloc-before.TotalAlloc); least <= most {
			break
		}
	}
	return least
}

// Anyone who may annotate one object makes every replica read what they wrote at each look, and many objects are looked at.
func TestNoSettingCostsMuchMoreThanItsText(t *testing.T) {
	const mostSaid, mostProblems = 2_000, 5
	readers := map[string]func(written map[string]string) []notice.Notice{
		"workload": func(written map[string]string) []notice.Notice {
			return optin.Read(optin.Metadata{Annotations: written}, defaults).Problems
		},
		"template": func(written map[string]string) []notice.Notice {
			return optin.Read(optin.Metadata{TemplateAnnotations: written}, defaults).Problems
		},
		"namespace": func(written map[string]string) []notice.Notice {
			return optin.Read(optin.Metadata{NamespaceAnnotations: written}, defaults).Problems
		},
		"source": func(written map[string]string) []notice.Notice {
			_, problems := defaults.Compat.Describe(pin.Source{Kind: pin.ConfigMap, Name: "app"}, &metav1.ObjectMeta{Annotations: written})
			return problems
		},
	}
	places := map[string][]string{"template": reloaderKeys, "workload": append([]string{wave + "extra-configmaps", wave + "extra-secrets", wave + "update-on-config-change"}, reloaderKeys...)}
	for _, place := range optin.Places() {
		places[place.Name] = append(places[place.Name], place.Annotations...)
	}
	for place, read := range readers {
		for _, key := range places[place] {
			for what, text := range hostile() {
				written := annotated(key, text)
				if strings.HasPrefix(key, wave) && !strings.HasSuffix(key, "change") {
					written[wave+"update-on-config-change"] = "true"
				}
				// Each of 32 expressions may have a program, and each of 32 triggers is matched with several.
				most := uint64(8 * size)
				if strings.HasSuffix(key, "."+reloader+"reload") || key == keys.RestartOn {
					most += 32 * 100_000
				}
				var problems []notice.Notice
				if got := allocated(most, func() { problems = read(written) }); got > most {
					t.Errorf("%s, %s: %s: %d bytes for a text of %d", place, key, what, got, len(text))
				}
				said := 0
				for _, problem := range problems {
					said += len(problem.Text)
				}
				if said > mostSaid || len(problems) > mostProblems {
					t.Errorf("%s, %s: %s: %d problems, of %d bytes together", place, key, what, len(problems), said)
				}
			}
		}
	}
}

var reloaderKeys = []string{
	reloader + "auto", reloader + "search", reloader + "match", reloader + "ignore", "configmap." + reloader + "reload", "secret." + reloader + "reload",
	"configmaps.exclude." + reloader + "reload", "secrets.exclude." + reloader + "reload",
}
