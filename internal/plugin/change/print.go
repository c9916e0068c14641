package change

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/revision"
)

// mask stands for a value of a Secret, as in kubectl diff. It is not valid base64: the API server refuses a masked Secret that
// is applied by mistake, where an empty value would replace the real one.
const mask = "***"

// printed prints an object that was written, and notes about it for people.
func (w *writing) printed(obj client.Object, notes ...string) error {
	objects, err := w.print.ToPrinter()
	if err != nil {
		return err
	}
	return w.printObject(objects, obj, notes...)
}

// unchanged prints that an object needs no write, and why.
func (w *writing) unchanged(obj client.Object, notes ...string) error {
	if printer.Format(w.print) != "" {
		return w.printed(obj)
	}
	return w.printObject(&printers.NamePrinter{Operation: "unchanged"}, obj, notes...)
}

// printObject prints an object. It is the only place where a verb prints an object, so that no path can forget to mask a Secret
// (TestObjectsArePrintedInOnePlace).
func (w *writing) printObject(objects printers.ResourcePrinter, obj client.Object, notes ...string) error {
	// Typed clients leave out the kind.
	gvk, err := apiutil.GVKForObject(obj, clientgoscheme.Scheme)
	if err != nil {
		return err
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	shown, err := w.shown(obj)
	if err != nil {
		return err
	}
	if printer.Format(w.print) != "" {
		return objects.PrintObj(shown, printer.Raw(w.Out))
	}
	if err := objects.PrintObj(shown, w.Out); err != nil {
		return err
	}
	return w.say(notes...)
}

// shown returns an object as it may be printed. Only an object that was made from the command line and never sent to the API
// server keeps the values of a Secret, so that the output of "create secret --dry-run=client -o yaml" can be applied.
func (w *writing) shown(obj client.Object) (runtime.Object, error) {
	if obj.GetObjectKind().GroupVersionKind() != revision.GVK(pin.Secret) || w.fromInput && w.dryRun == cmdutil.DryRunClient {
		return obj, nil
	}
	return masked(obj)
}

// masked returns a copy of a Secret without its values. Annotations of other tools may contain a copy of the whole object, as
// kubectl.kubernetes.io/last-applied-configuration does, so they are masked too.
func masked(obj client.Object) (runtime.Object, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	copied := (&unstructured.Unstructured{Object: content}).DeepCopy()
	for _, field := range []string{"data", "stringData"} {
		values, _, _ := unstructured.NestedMap(copied.Object, field)
		for key := range values {
			values[key] = mask
		}
		if len(values) > 0 {
			copied.Object[field] = values
		}
	}
	annotations := copied.GetAnnotations()
	for key := range annotations {
		if !strings.HasPrefix(key, keys.Prefix) {
			annotations[key] = mask
		}
	}
	copied.SetAnnotations(annotations)
	return copied, nil
}
