package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Protect limits how many instances of each process a drain of nodes may stop at the same
// time to one: wanted has the number of instances of every process, by guid. Processes with
// one instance cannot be protected, because that would block every drain. It calls the
// cluster only when something changed since the last call.
func (e *Engine) Protect(ctx context.Context, wanted map[string]int) error {
	least := map[string]int{}
	for process, instances := range wanted {
		if instances > 1 && dnsName().MatchString(process) {
			least["p-"+process] = instances - 1
		}
	}
	e.mu.Lock()
	same := e.budgets != nil && maps.Equal(e.budgets, least)
	e.mu.Unlock()
	if same {
		return nil
	}
	client := e.client.Resource(budgetResource).Namespace(e.options.Namespace)
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: e.pods.selector})
	if err != nil {
		return fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	missing := maps.Clone(least)
	var failed []error
	for _, o := range list.Items {
		number, wanted := least[o.GetName()]
		delete(missing, o.GetName())
		now, _, _ := unstructured.NestedInt64(o.Object, "spec", "minAvailable")
		switch {
		case !wanted:
			err = client.Delete(ctx, o.GetName(), metav1.DeleteOptions{})
		case now != int64(number):
			patch, _ := json.Marshal(object{"spec": object{"minAvailable": number}}) // plain values
			_, err = client.Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
		default:
			continue
		}
		if err != nil && !apierrors.IsNotFound(err) {
			failed = append(failed, fmt.Errorf("PodDisruptionBudget %s: %w", o.GetName(), err))
		}
	}
	for name, number := range missing {
		_, err := client.Create(ctx, &unstructured.Unstructured{Object: e.budget(name, number)}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			failed = append(failed, fmt.Errorf("PodDisruptionBudget %s: %w", name, err))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	e.mu.Lock()
	e.budgets = least
	e.mu.Unlock()
	return nil
}

// budget returns a PodDisruptionBudget. The number is an integer: percentages need a
// controller of a kind that Kubernetes knows.
func (e *Engine) budget(name string, least int) object {
	return object{
		"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
		"metadata": object{
			"name": name, "namespace": e.options.Namespace, "labels": object{labelInstall: e.install},
			"ownerReferences": []any{object{"apiVersion": "v1", "kind": "ConfigMap", "name": ownerName, "uid": e.ownerUID()}},
		},
		"spec": object{
			"minAvailable": int64(least), "unhealthyPodEvictionPolicy": "AlwaysAllow",
			"selector": object{"matchLabels": object{labelInstall: e.install, labelKind: kindApp,
				labelProcess: name[len("p-"):]}},
		},
	}
}
