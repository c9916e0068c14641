package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"confrev.io/confrev/internal/audit"
	"confrev.io/confrev/internal/audit/collect"
	"confrev.io/confrev/internal/plugin/session"
)

// A pipe in a command is no end of a cell, and a command of several lines is several commands of one cell.
func TestAuditPageIsATable(t *testing.T) {
	found := &collect.Audit{Report: audit.Report{Findings: []audit.Finding{
		{Severity: audit.Warning, Reason: audit.StalePods, Namespace: "ns", Object: "pod/web", Pods: 1, Message: "a|b", Fix: "get | replace"},
		{Severity: audit.Info, Reason: audit.HashedNames, Namespace: "ns", Object: "deployment/web", Pods: -1, Message: "two\nlines", Fix: "one\ntwo"},
		{Severity: audit.Info, Reason: audit.HashedNames, Namespace: "ns", Object: "cronjob/web", Pods: 0, Message: "_x_"},
	}}, Notes: []string{"you may not list secrets"}}
	var page bytes.Buffer
	if err := printAuditPage(&page, found); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n- you may not list secrets\n", "\n## StalePods\n\n" + audit.StalePods.Explain() + "\n\n| severity |",
		"| Warning | ns | pod/web | 1 | a\\|b | `get \\| replace` |\n", "| Info | ns | deployment/web | - | two<br>lines | `one`<br>`two` |\n",
		`| Info | ns | cronjob/web | 0 | \_x\_ | - |` + "\n",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, page.String())
		}
	}
	if strings.Count(page.String(), "\n## ") != 2 {
		t.Errorf("a reason has two sections:\n%s", page.String())
	}
}

// Rule 24: without findings, nothing sounds like a proof. What may not be seen is no 0.
func TestAnAuditWithoutFindingsProvesNothing(t *testing.T) {
	empty := &collect.Audit{Report: audit.Report{Summary: audit.Summary{Pods: -1, Workloads: 2}}}
	if text := afterAuditTable(empty); !strings.Contains(text, "no proof") || !strings.Contains(text, "Workloads: 2. Pods: not seen.") {
		t.Errorf("it says %q", text)
	}
	for name, tt := range map[string]struct {
		audit  collect.Audit
		always bool
		want   string
	}{
		"nothing at all":              {collect.Audit{}, true, ""},
		"something may not be seen":   {collect.Audit{Notes: []string{"x"}}, true, "4"},
		"a warning, and the flag":     {collect.Audit{Report: audit.Report{Findings: []audit.Finding{{Severity: audit.Warning}}}, Notes: []string{"x"}}, true, "3"},
		"a warning, without the flag": {collect.Audit{Report: audit.Report{Findings: []audit.Finding{{Severity: audit.Warning}}}}, false, ""},
		"something is unknown":        {collect.Audit{Report: audit.Report{Findings: []audit.Finding{{Severity: audit.Unknown}}}}, true, "4"},
		"only information":            {collect.Audit{Report: audit.Report{Findings: []audit.Finding{{Severity: audit.Info}}}}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if status, ends := errors.AsType[session.ExitStatus]((&auditOptions{exitCode: tt.always}).end(&tt.audit)); ends {
				got = fmt.Sprint(status.Status)
			}
			if got != tt.want {
				t.Errorf("status %q, want %q", got, tt.want)
			}
		})
	}
}
