package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"ingot/internal/base/background"
	"ingot/internal/platform/engine"
)

// pods are the Pods of the installation, as far as the watch has reported them.
type pods struct {
	client   dynamic.ResourceInterface
	selector string
	informer cache.SharedIndexInformer
	log      *slog.Logger
	started  bool
	changed  func(*pod) // called for every new state of a Pod
	deleted  func(*pod)

	mu      sync.Mutex
	waiting map[chan struct{}]string // who waits for a change of which Pod
}

const (
	byID = "id"
	// lookAgain is how often a waiter looks without a change, for what depends on time.
	lookAgain = 500 * time.Millisecond
)

func newPods(client dynamic.ResourceInterface, list func(context.Context, metav1.ListOptions) (*podList, error),
	selector string, log *slog.Logger) *pods {
	p := &pods{client: client, selector: selector, log: log, waiting: map[chan struct{}]string{}}
	p.informer = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return list(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return client.Watch(ctx, o)
		},
	}, &unstructured.Unstructured{}, 0, cache.Indexers{byID: func(o any) ([]string, error) {
		if one, ok := o.(*pod); ok {
			return []string{one.id()}, nil
		}
		return nil, nil
	}})
	return p
}

// page is how many Pods are read at once: read together, the Pods of a large installation
// need several times the memory that is kept of them.
const page = 500

// podList is the list of Pods for the informer.
type podList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []*pod `json:"items"`
}

func (l *podList) DeepCopyObject() runtime.Object { c := *l; return &c }

// DeepCopyObject makes a pod an object of the informer, which does not change it.
func (p *pod) DeepCopyObject() runtime.Object { c := *p; return &c }

// listPods reads the Pods page by page. It decodes only what a pod has: a client that decodes
// all of it needs a second for each thousand.
func (e *Engine) listPods(ctx context.Context, o metav1.ListOptions) (*podList, error) {
	at := e.server.JoinPath("api/v1/namespaces", e.options.Namespace, "pods")
	q := url.Values{"labelSelector": {o.LabelSelector}, "limit": {strconv.Itoa(page)}}
	var all podList
	for {
		at.RawQuery = q.Encode()
		var some podList
		if err := e.getJSON(ctx, at.String(), &some); err != nil {
			return nil, err
		}
		for _, one := range some.Items {
			one.ManagedFields = nil
		}
		all.Items = append(all.Items, some.Items...)
		all.ResourceVersion = some.ResourceVersion
		if some.Continue == "" {
			return &all, nil
		}
		q.Set("continue", some.Continue)
	}
}

// getJSON decodes an answer of the API server.
func (e *Engine) getJSON(ctx context.Context, address string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	answer, err := e.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return json.NewDecoder(answer.Body).Decode(into)
	}
	refused := &apierrors.StatusError{}
	if err := json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&refused.ErrStatus); err != nil ||
		refused.ErrStatus.Message == "" {
		return fmt.Errorf("GET %s: %s", address, answer.Status)
	}
	return refused
}

// run watches until ctx ends.
func (p *pods) run(ctx context.Context) {
	// Neither fails before the informer runs.
	_ = p.informer.SetTransform(compact)
	_ = p.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		p.log.Warn("watching the Pods of apps was interrupted", "error", err)
	})
	_, _ = p.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { p.tell(o, p.changed) },
		UpdateFunc: func(_, o any) { p.tell(o, p.changed) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			p.tell(o, p.deleted)
		},
	})
	p.informer.RunWithContext(klog.NewContext(ctx, logr.FromSlogHandler(quiet{p.log.Handler()})))
}

// compact turns an object of the API into a pod, so that the cache is small.
func compact(o any) (any, error) {
	switch o := o.(type) {
	case *unstructured.Unstructured:
		return parsePod(o)
	case cache.DeletedFinalStateUnknown:
		inner, err := compact(o.Obj)
		o.Obj = inner
		return o, err
	}
	return o, nil
}

func parsePod(o *unstructured.Unstructured) (*pod, error) {
	p := &pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, p); err != nil {
		return nil, fmt.Errorf("pod %s: %w", o.GetName(), err)
	}
	p.ManagedFields = nil
	return p, nil
}

func (p *pods) tell(o any, f func(*pod)) {
	one, ok := o.(*pod)
	if !ok {
		return
	}
	f(one)
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, name := range p.waiting {
		if name == one.Name {
			background.Kick(c)
		}
	}
}

// synced waits until all Pods were listed.
func (p *pods) synced(ctx context.Context) error {
	if p.informer.HasSynced() {
		return nil
	}
	if !cache.WaitForCacheSync(ctx.Done(), p.informer.HasSynced) {
		return errors.New("the cluster did not answer in time")
	}
	return nil
}

// cached returns a Pod by name as the watch knows it, or nil.
func (p *pods) cached(namespace, name string) *pod {
	o, ok, err := p.informer.GetIndexer().GetByKey(namespace + "/" + name)
	if err != nil || !ok {
		return nil
	}
	one, _ := o.(*pod)
	return one
}

// all returns the Pods that the watch knows. It waits for the first complete list.
func (p *pods) all(ctx context.Context) ([]*pod, error) {
	if err := p.synced(ctx); err != nil {
		return nil, err
	}
	var found []*pod
	for _, o := range p.informer.GetIndexer().List() {
		if one, ok := o.(*pod); ok {
			found = append(found, one)
		}
	}
	return found, nil
}

// find returns the Pod of an instance, or engine.ErrNotFound if the API server says that
// it does not exist.
func (p *pods) find(ctx context.Context, id string) (*pod, error) {
	list, err := p.informer.GetIndexer().ByIndex(byID, id)
	if err != nil {
		return nil, err
	}
	for _, o := range list {
		if one, ok := o.(*pod); ok {
			return one, nil
		}
	}
	answer, err := p.client.List(ctx, metav1.ListOptions{LabelSelector: p.selector + "," + labelID + "=" + id, Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("looking for instance %s: %w", id, err)
	}
	if len(answer.Items) == 0 {
		return nil, engine.ErrNotFound
	}
	return parsePod(&answer.Items[0])
}

// read asks the API server for a Pod.
func (p *pods) read(ctx context.Context, name string) (*pod, error) {
	o, err := p.client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return parsePod(o)
}

// await calls f with the Pod as the watch knows it, nil if it does not exist, after every
// change and from time to time, until f is done.
func (p *pods) await(ctx context.Context, namespace, name string, f func(*pod) (done bool, err error)) error {
	c := make(chan struct{}, 1)
	p.mu.Lock()
	p.waiting[c] = name
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.waiting, c)
	}()
	for {
		if done, err := f(p.cached(namespace, name)); done || err != nil {
			return err
		}
		if !background.Wait(ctx, lookAgain, c) {
			return ctx.Err()
		}
	}
}

// isGone reports whether the API server has no such Pod, or another of that name.
func isGone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

// quiet passes on the errors of client-go only; it logs every list at a higher level.
type quiet struct{ slog.Handler }

// Enabled implements slog.Handler.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelError && q.Handler.Enabled(ctx, level)
}
