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
	waiting map[string]map[chan struct{}]bool // who waits for a change, by the name of the Pod
}

const (
	byID = "id"
	// lookAgain is how often a waiter looks without a change, for what depends on time.
	lookAgain = 500 * time.Millisecond
)

func newPods(client dynamic.ResourceInterface, list func(context.Context, metav1.ListOptions) (*podList, error),
	follow func(context.Context, metav1.ListOptions) (watch.Interface, error), selector string, log *slog.Logger) *pods {
	p := &pods{client: client, selector: selector, log: log, waiting: map[string]map[chan struct{}]bool{}}
	p.informer = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return list(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return follow(ctx, o)
		},
	}, &pod{}, 0, cache.Indexers{byID: func(o any) ([]string, error) {
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

// podsURL returns where Pods are listed and watched.
func (e *Engine) podsURL(o metav1.ListOptions, more url.Values) string {
	at := e.server.JoinPath("api/v1/namespaces", e.options.Namespace, "pods")
	more.Set("labelSelector", o.LabelSelector)
	at.RawQuery = more.Encode()
	return at.String()
}

// listPods reads the Pods page by page. It decodes only what a pod has: a client that decodes
// all of it needs a second for each thousand.
func (e *Engine) listPods(ctx context.Context, o metav1.ListOptions) (*podList, error) {
	q := url.Values{"limit": {strconv.Itoa(page)}}
	var all podList
	for {
		body, err := e.get(ctx, e.podsURL(o, q))
		if err != nil {
			return nil, err
		}
		var some podList
		err = json.NewDecoder(body).Decode(&some)
		_ = body.Close() // only read
		if err != nil {
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

// watchPods watches the Pods, and decodes like listPods.
func (e *Engine) watchPods(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	q := url.Values{"watch": {"true"}, "resourceVersion": {o.ResourceVersion},
		"allowWatchBookmarks": {strconv.FormatBool(o.AllowWatchBookmarks)}}
	if o.TimeoutSeconds != nil {
		q.Set("timeoutSeconds", strconv.FormatInt(*o.TimeoutSeconds, 10))
	}
	body, err := e.get(ctx, e.podsURL(o, q))
	if err != nil {
		return nil, err
	}
	return watch.NewStreamWatcher(&podEvents{body, json.NewDecoder(body)},
		apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding")), nil
}

// podEvents decodes the events of a watch.
type podEvents struct {
	body   io.ReadCloser
	events *json.Decoder
}

// Decode returns the next event.
func (d *podEvents) Decode() (watch.EventType, runtime.Object, error) {
	var e struct {
		Type   watch.EventType `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := d.events.Decode(&e); err != nil {
		return "", nil, err
	}
	if e.Type == watch.Error {
		status := &metav1.Status{}
		return e.Type, status, json.Unmarshal(e.Object, status)
	}
	p := &pod{}
	err := json.Unmarshal(e.Object, p)
	p.ManagedFields = nil
	return e.Type, p, err
}

// Close ends the watch.
func (d *podEvents) Close() { _ = d.body.Close() } // only read

// get returns an answer of the API server, to be closed by the caller.
func (e *Engine) get(ctx context.Context, address string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	answer, err := e.http.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	refused := &apierrors.StatusError{}
	if err := json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&refused.ErrStatus); err != nil ||
		refused.ErrStatus.Message == "" {
		return nil, fmt.Errorf("GET %s: %s", address, answer.Status)
	}
	return nil, refused
}

// run watches until ctx ends.
func (p *pods) run(ctx context.Context) {
	// Neither fails before the informer runs.
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
	for c := range p.waiting[one.Name] {
		background.Kick(c)
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
	if p.waiting[name] == nil {
		p.waiting[name] = map[chan struct{}]bool{}
	}
	p.waiting[name][c] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if delete(p.waiting[name], c); len(p.waiting[name]) == 0 {
			delete(p.waiting, name)
		}
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
