package inspect

import (
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/view"
)

// question is a verb about objects that have to be named.
type question struct {
	*session.Session
	printer.Output
	objects []view.Object
}

func (q *question) Fill(_ *cobra.Command, args []string) (err error) {
	if err := q.Check(); err != nil {
		return err
	}
	q.objects, err = q.Objects(args)
	return err
}

// answer prints what was found. In place of an empty table people read what none means.
func (q *question) answer(data any, notes []string, table *metav1.Table, none string) error {
	q.PrintNotes(notes)
	if len(table.Rows) == 0 && q.IsTable() {
		_, err := fmt.Fprintln(q.ErrOut, none)
		return err
	}
	return q.Print(q.Out, data, table, false)
}
