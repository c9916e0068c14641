package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/test/gen"
)

func previewed(name string, rollsOut bool, when string, sources ...view.SourceChange) view.Preview {
	return view.Preview{WorkloadRef: view.WorkloadRef{Namespace: "shop", Workload: name}, RollsOut: rollsOut, When: when, Sources: sources}
}

func source(verdict plan.Verdict, from, to, because string) view.SourceChange {
	return view.SourceChange{Source: "configmap/app", Verdict: string(verdict), From: from, To: to, Because: because}
}

// The page of a preview begins with what rolls out.
func TestPreviewPage(t *testing.T) {
	created := previewed("deployment/new", true, "")
	created.Template = true
	list := &view.PreviewList{
		Workloads: []view.Preview{
			previewed("deployment/a", false, "", source(plan.InSync, "app-1@1", "app-1@1", "nothing that the workload uses changes")),
			previewed("deployment/b", false, "", source(plan.Waiting, "app-1@1", "app-1@1", "waits at revision 1 for a deploy")),
			previewed("deployment/c", false, "", source(plan.KeyMissing, "app-1@1", "app-1@1", "lacks key color")),
			previewed("cronjob/d", true, "with the next Job", source(plan.Advanced, "app-1@1", "app-2@2", "revision 1 -> 2")),
			previewed("deployment/web", true, "", source(plan.Advanced, "app-1@1", "app-2@2", "revision 1 -> 2")),
			created, previewed("deployment/x", false, ""),
		},
		Changes: []view.ChangePreview{{SpreadStatus: view.SpreadStatus{Source: "configmap/app"}, AtLeast: "5m0s"}},
		Notes:   []string{"x@1 is left out"},
	}
	const want = "## This edit restarts 2 workloads, and reaches 2 later; 1 workload would lack a source or a key\n\n" +
		"- x@&#8203;1 is left out\n- the change to configmap/app reaches 0 workloads in 0 waves (), and takes at least 5m0s\n\n" +
		"| namespace | workload | source | verdict | when | why |\n|---|---|---|---|---|---|\n" +
		"| `shop` | `deployment/web` | `configmap/app` | Advanced | at once | revision 1 -&gt; 2 |\n" +
		"| `shop` | `deployment/new` | the pod template | Changed | at once | its template changes |\n" +
		"| `shop` | `deployment/b` | `configmap/app` | Waiting | later | waits at revision 1 for a deploy |\n" +
		"| `shop` | `cronjob/d` | `configmap/app` | Advanced | with the next Job | revision 1 -&gt; 2 |\n" +
		"| `shop` | `deployment/c` | `configmap/app` | KeyMissing | - | lacks key color |\n" +
		"| `shop` | `deployment/a` | `configmap/app` | InSync | - | nothing that the workload uses changes |\n" +
		"| `shop` | `deployment/x` | - | InSync | - | neither its template nor what it uses changes |\n"
	if got := previewPage(list); got != want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
	if got := previewPage(&view.PreviewList{}); got != "## This edit restarts no workload\n\nNothing uses what is in the files.\n" {
		t.Errorf("without workloads, the page is\n%s", got)
	}
}

// What others wrote is a text in the page. printer's tests show that it is for every text.
func TestPreviewPageIsATable(t *testing.T) {
	page := previewPage(&view.PreviewList{Notes: []string{gen.Hostile + "[a](https://evil.example)"}, Workloads: []view.Preview{
		{WorkloadRef: view.WorkloadRef{Namespace: "a|b", Workload: "c\nd"}, Sources: []view.SourceChange{{Source: "`e`", Verdict: "<b>", Because: "@team | https://evil.example"}}},
	}})
	if strings.ContainsAny(strings.ReplaceAll(page, `\|`, ""), "\x1b") || strings.Count(page, "\n") != 7 {
		t.Errorf("it is more than 7 lines, or has a control character:\n%s", page)
	}
	for _, wrong := range []string{"[a]", "<b>", "@team", "://"} {
		if strings.Contains(page, wrong) {
			t.Errorf("it has %q:\n%s", wrong, page)
		}
	}
}

// A preview is printed as Markdown, as a table, or for programs, and ends with a status if it is asked for one.
func TestPreviewEndsWithAStatus(t *testing.T) {
	rolls := previewed("deployment/web", true, "", source(plan.Advanced, "app-1@1", "app-2@2", "revision 1 -> 2"))
	stays := previewed("deployment/web", false, "", source(plan.InSync, "", "", "-"))
	for name, tt := range map[string]struct {
		list view.PreviewList
		want string
	}{
		"a restart":                    {view.PreviewList{Workloads: []view.Preview{stays, rolls}}, "3"},
		"a restart, and a note":        {view.PreviewList{Workloads: []view.Preview{rolls}, Notes: []string{"x"}}, "3"},
		"with the next Job":            {view.PreviewList{Workloads: []view.Preview{previewed("cronjob/a", true, "with the next Job")}}, "3"},
		"a change that waits":          {view.PreviewList{Workloads: []view.Preview{previewed("deployment/a", false, "", source(plan.Waiting, "", "", ""))}}, "3"},
		"a missing key":                {view.PreviewList{Workloads: []view.Preview{previewed("deployment/a", false, "", source(plan.KeyMissing, "", "", ""))}}, "3"},
		"nothing":                      {view.PreviewList{}, "0"},
		"a workload that stays":        {view.PreviewList{Workloads: []view.Preview{stays}}, "0"},
		"one that is held":             {view.PreviewList{Workloads: []view.Preview{previewed("deployment/a", false, "", source(plan.Held, "", "", ""))}}, "0"},
		"nothing, but not all is seen": {view.PreviewList{Notes: []string{"x"}}, "4"},
		"a source that is not seen":    {view.PreviewList{Workloads: []view.Preview{previewed("deployment/a", false, "", source(plan.Unknown, "", "", ""))}}, "4"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.list.TypeMeta = metav1.TypeMeta{Kind: "PreviewList", APIVersion: "cli.confrev.io/v1alpha1"}
			for _, format := range []string{"", "json", "markdown"} {
				for _, asked := range []bool{true, false} {
					var out, errOut bytes.Buffer
					o := &previewOptions{Session: &session.Session{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &errOut}}, exitCode: asked}
					o.Output = printer.Output{Flags: genericclioptions.NewPrintFlags(""), Markdown: true}
					o.Flags.OutputFormat = &format
					got, want := "0", tt.want
					if !asked {
						want = "0"
					}
					status, ends := errors.AsType[session.ExitStatus](o.end(&tt.list))
					if ends {
						got = fmt.Sprint(status.Status)
					}
					if got != want || status.Err != nil || out.Len() == 0 {
						t.Errorf("%s, asked %t: status %s, want %s\n%s%s", format, asked, got, want, out.String(), errOut.String())
					}
					if notes := strings.Contains(errOut.String(), "note: x"); notes != (len(tt.list.Notes) > 0 && format != "markdown") {
						t.Errorf("%s: on standard error it says %q", format, errOut.String())
					}
				}
			}
		})
	}
}
