package change

import (
	"testing"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/test/gen"
)

// Plans have no Secrets for a user who may not list them. Such a user must not believe that all sources were moved.
func TestSecretsThatMayNotBeListedAreNotSkippedSilently(t *testing.T) {
	one, two := pin.Pin{Revision: "app-a", Number: 1}, pin.Pin{Revision: "app-b", Number: 2}
	app, db := gen.Source("configmap/app"), gen.Source("secret/db")
	look := rollout.Assessment{
		Follows: true, Hidden: true, Uses: []podspec.Use{{Source: app}, {Source: db}},
		Template: pin.Set{app: two, db: {Revision: "db-a", Number: 1}},
		Pins:     plan.Plan{Decisions: []plan.Decision{{Source: app, Verdict: plan.InSync, From: two, To: two, Current: two}}},
		// Without looking further, undo would take configmap/app for the only source.
		RolledOut: []plan.Holder{{Order: 1, Pins: pin.Set{app: one, db: {Revision: "db-a", Number: 1}}}},
	}
	refusal := "you may not list Secrets, so secret/db would stay as it is: name the sources to move, such as configmap/app"
	verbs := map[string]func(rollout.Assessment, ...pin.Source) error{
		"undo": func(look rollout.Assessment, sources ...pin.Source) error {
			_, err := previousPins(web("all"), look, sources, 0)
			return err
		},
		"undo --restore-source": func(look rollout.Assessment, sources ...pin.Source) error {
			_, err := toRestore(web("all"), look, sources, 0)
			return err
		},
		"resume": func(look rollout.Assessment, sources ...pin.Source) error {
			_, err := toCurrent(web("all"), look, sources, []plan.Verdict{plan.Held})
			return err
		},
	}
	for name, verb := range verbs {
		t.Run(name, func(t *testing.T) {
			if err := verb(look); !says(err, refusal) {
				t.Errorf("of all sources it says %v", err)
			}
			if err := verb(look, app); says(err, "may not list") {
				t.Errorf("of configmap/app it says %v", err)
			}
			if err := verb(look, db); !says(err, "deployment/web: you may not list Secrets, so what is to become of secret/db is not known") {
				t.Errorf("of secret/db it says %v", err)
			}
			if err := verb(look, gen.Source("secret/else")); !says(err, "does not refer to secret/else") {
				t.Errorf("of secret/else it says %v", err)
			}
			without := look
			without.Template = pin.Set{app: two}
			if err := verb(without); says(err, "may not list") {
				t.Errorf("without a pin of a Secret it says %v", err)
			}
		})
	}
}
