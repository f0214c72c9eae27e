package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"ingot/internal/base/background"
	"ingot/internal/base/keyed"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/engine/local"
	"ingot/internal/platform/instance/agentproto"
)

const (
	// agentTime limits one short question to an agent.
	agentTime = 3 * time.Second
	// renewAfter is the age at which this server's certificate is renewed; it is valid for
	// a day.
	renewAfter = 12 * time.Hour
	// syncTime limits the first list of Pods.
	syncTime = time.Minute
)

var errClosed = errors.New("the engine is closed")

// Engine runs instances as Pods.
type Engine struct {
	options Options
	log     *slog.Logger
	config  *rest.Config
	client  dynamic.Interface
	http    *http.Client
	server  *url.URL
	install string       // labels the Pods of this installation
	owner   atomic.Value // uid of the ConfigMap that owns them; set by connect
	pods    *pods
	creates *rate.Limiter
	// separate means that Pods ask for a user namespace.
	separate atomic.Bool
	ids      keyed.Mutex
	starting local.Starting // not visible yet

	// open is cancelled by Close, and with it every stream and every Exec.
	open context.Context //nolint:containedctx // the lifetime of the engine, not of a call
	shut context.CancelFunc
	work background.WaitGroup

	checking sync.Mutex    // held by Check
	trying   chan struct{} // closed when the first trial has ended; nil without one
	mu       sync.Mutex
	removing map[types.UID]bool
	known    map[types.UID]*known
	// anySilent means that an agent may be silent.
	anySilent bool
	execs     map[*execution]struct{}
	keys      []agent.Keys      // newest first
	reloaded  time.Time         // when keys were read
	dialers   map[string]dialer // by the ids of keys
	userns    *bool             // whether instances have a user namespace; nil until one has said so
	held      error             // why no instances are started
	budgets   map[string]int
}

var _ engine.Engine = (*Engine)(nil)

// New connects to the cluster and lists its Pods.
func New(ctx context.Context, o Options) (*Engine, error) {
	e, err := prepare(o)
	if err != nil {
		return nil, err
	}
	if err := e.connect(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// prepare creates an engine without calling the cluster.
func prepare(o Options) (*Engine, error) {
	config, err := restConfig(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		options: o, log: o.Log, config: config, install: cmp.Or(o.Install, InstallName(o.Key)),
		creates: rate.NewLimiter(rate.Limit(o.Rate), max(1, o.Rate)),
		keys:    append([]agent.Keys{{Authority: o.Authority, Key: o.Key}}, o.Older...), dialers: map[string]dialer{},
		removing: map[types.UID]bool{}, known: map[types.UID]*known{}, execs: map[*execution]struct{}{},
	}
	e.log = cmp.Or(e.log, slog.New(slog.DiscardHandler))
	e.options.Silence = cmp.Or(e.options.Silence, agentproto.Silence)
	e.options.ForceAfter = cmp.Or(e.options.ForceAfter, defaultForceAfter)
	e.options.PullTime = cmp.Or(e.options.PullTime, defaultPullTime)
	if e.options.Home == nil {
		e.options.Home = func(string) string { return home }
	}
	if e.options.Displaced == nil {
		e.options.Displaced = func(string, string) {}
	}
	if e.http, err = rest.HTTPClientFor(config); err != nil {
		return nil, err
	}
	if e.server, _, err = rest.DefaultServerUrlFor(config); err != nil {
		return nil, err
	}
	if e.client, err = dynamic.NewForConfigAndClient(config, e.http); err != nil {
		return nil, err
	}
	e.separate.Store(o.UserNamespaces == UserNamespacesOn)
	e.open, e.shut = context.WithCancel(context.Background())
	e.pods = newPods(e.client.Resource(podResource).Namespace(o.Namespace), e.listPods, e.watchPods,
		labelInstall+"="+e.install, e.log)
	e.pods.changed = e.podChanged
	e.pods.deleted = e.podDeleted
	return e, nil
}

var (
	podResource       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	configMapResource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	budgetResource    = schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}
)

// restConfig returns how to reach the API server: by a kubeconfig, or from inside a Pod.
func restConfig(path string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if path == "" {
		config, err = rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			err = errors.New("this program does not run in a Pod: name a kubeconfig with --kubernetes-kubeconfig")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("connection to the cluster: %w", err)
	}
	config.QPS = -1 // creates are limited by Options.Rate, and nothing else is done often
	config.WarningHandler = rest.NoWarnings{}
	config.UserAgent = "ingot"
	return config, nil
}

// ownerUID returns the uid of the ConfigMap that owns all objects; "" before connect.
func (e *Engine) ownerUID() string {
	uid, _ := e.owner.Load().(string)
	return uid
}

// connect reads the owner of the Pods and starts to watch them.
func (e *Engine) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, syncTime)
	defer cancel()
	owner, err := e.client.Resource(configMapResource).Namespace(e.options.Namespace).
		Get(ctx, ownerName, metav1.GetOptions{})
	if err != nil {
		return stepError("read the ConfigMap "+ownerName, err)
	}
	e.owner.Store(string(owner.GetUID()))
	// A list of our own, because the informer only logs why it cannot list.
	if _, err := e.pods.client.List(ctx, metav1.ListOptions{LabelSelector: e.pods.selector, Limit: 1}); err != nil {
		return stepError("list Pods", err)
	}
	began, first := time.Now(), !e.pods.started
	if first {
		e.pods.started = true
		e.work.Go("kubernetes watch", func() { e.pods.run(e.open) })
	}
	if err := e.pods.synced(ctx); err != nil {
		return stepError("list Pods", err)
	}
	if first {
		e.log.InfoContext(ctx, "listed the Pods of apps", "pods", len(e.pods.informer.GetIndexer().ListKeys()),
			"pods_listed_ms", time.Since(began).Milliseconds())
	}
	return nil
}

// Describe reports how instances are isolated, and why none are started.
func (e *Engine) Describe() engine.Description {
	e.mu.Lock()
	defer e.mu.Unlock()
	d := engine.Description{Name: "kubernetes", Isolated: true, HardDisk: e.options.DiskClass != "", Remote: true,
		NoMemberLimits: noMemberLimits, Detail: "Pods in the namespace " + e.options.Namespace}
	switch {
	case e.userns != nil && *e.userns:
		d.Detail += ", with user namespaces"
	case e.userns != nil:
		d.Detail += ", without user namespaces"
	}
	d.Detail += "; the number of processes is limited by the nodes"
	if e.options.DiskClass == "" {
		d.Detail += "; an instance that exceeds its disk is stopped"
	}
	if e.held != nil {
		d.Held = e.held.Error()
	}
	return d
}

// Close ends streams and execs. Instances keep running.
func (e *Engine) Close() error {
	e.shut()
	e.mu.Lock()
	var execs []*execution
	for x := range e.execs {
		execs = append(execs, x)
	}
	e.mu.Unlock()
	for _, x := range execs {
		_ = x.Close() // its user gets the error
	}
	e.work.Wait()
	e.http.CloseIdleConnections()
	return nil
}

// find returns the Pod of an instance that was launched, or engine.ErrNotFound. If the
// watch does not know it, the API server is asked: another server may have created it.
func (e *Engine) find(ctx context.Context, id string) (*pod, error) {
	if checkID(id) != nil || e.starting.Has(id) {
		return nil, engine.ErrNotFound
	}
	if err := e.open.Err(); err != nil {
		return nil, errClosed
	}
	p, err := e.pods.find(ctx, id)
	if err != nil {
		return nil, err
	}
	p, _, launched, err := e.state(ctx, p, time.Hour)
	switch {
	case err != nil:
		return nil, err
	case !launched:
		return nil, engine.ErrNotFound
	}
	return p, nil
}

// reach returns the Pod and the agent of a running instance.
func (e *Engine) reach(ctx context.Context, id string) (*pod, *agent.Client, error) {
	p, err := e.find(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	if !p.reachable() {
		return nil, nil, fmt.Errorf("instance %s: %w", id, errEnded)
	}
	c, err := e.agent(p)
	return p, c, err
}

var errEnded = errors.New("the instance has ended")

func joinPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// Signal asks the agent to stop its members.
func (e *Engine) Signal(ctx context.Context, id string) error {
	p, err := e.find(ctx, id)
	if err != nil {
		return err
	}
	if !p.reachable() {
		return nil
	}
	c, err := e.agent(p)
	if err != nil {
		return err
	}
	err = c.Stop(ctx, false)
	if err != nil && e.over(ctx, p) {
		return nil
	}
	return err
}

// over reports whether a Pod has ended, perhaps since it was read.
func (e *Engine) over(ctx context.Context, p *pod) bool {
	now, err := e.pods.read(ctx, p.Name)
	return apierrors.IsNotFound(err) || err == nil && (now.UID != p.UID || now.over())
}

// Dial connects from inside the instance.
func (e *Engine) Dial(ctx context.Context, id, network, address string) (net.Conn, error) {
	_, c, err := e.reach(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.Dial(ctx, network, address)
}

// Usage asks the agent what the instance uses.
func (e *Engine) Usage(ctx context.Context, id string) (engine.Usage, error) {
	p, c, err := e.reach(ctx, id)
	if err != nil {
		return engine.Usage{}, err
	}
	u, err := c.Usage(ctx)
	u.MemoryLimit = memoryOf(p.limits())
	return u, err
}

// Collect reads files of the instance.
func (e *Engine) Collect(ctx context.Context, id, path string, w io.Writer) error {
	_, c, err := e.reach(ctx, id)
	if err != nil {
		return err
	}
	return c.Collect(ctx, path, w)
}

// Exec runs a process in the instance.
func (e *Engine) Exec(ctx context.Context, id string, r engine.ExecRequest) (engine.Process, error) {
	p, c, err := e.reach(ctx, id)
	if err != nil {
		return nil, err
	}
	words := e.words(p)
	r.Args, r.Env, r.Dir = words.All(r.Args), words.All(r.Env), words.In(r.Dir)
	image := p.image()
	if image != nil && r.Dir == "" {
		r.Dir = image.Dir
	}
	process, err := c.Exec(ctx, r)
	if image != nil && errors.Is(err, os.ErrNotExist) && len(r.Args) > 0 && r.Args[0] == "/bin/sh" {
		err = engine.NoShell()
	}
	if err != nil {
		return nil, err
	}
	x := &execution{Process: process, engine: e}
	e.mu.Lock()
	closed := e.open.Err() != nil
	e.execs[x] = struct{}{}
	e.mu.Unlock()
	if closed {
		return nil, errors.Join(errClosed, x.Close())
	}
	return x, nil
}

// execution is a process that ends with the engine.
type execution struct {
	engine.Process
	engine *Engine
}

// Close implements engine.Process.
func (x *execution) Close() error {
	x.engine.mu.Lock()
	delete(x.engine.execs, x)
	x.engine.mu.Unlock()
	return x.Process.Close()
}

// words returns the values of placeholders in a Pod.
func (e *Engine) words(p *pod) local.Words {
	w := local.Words{Home: e.options.Home(p.Name), IP: p.Status.PodIP, Host: p.Status.PodIP,
		Port: func(n int) int { return n }}
	if i := p.image(); i != nil && i.Home != "" {
		w.Home, w.Files = i.Home, w.Home
	}
	return w
}
