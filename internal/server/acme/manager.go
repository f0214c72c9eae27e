package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"

	"ingot/internal/base/background"
)

// ChallengeProtocol is the protocol in the handshake of an authority that checks a name. A
// listener has to offer it.
const ChallengeProtocol = "acme-tls/1"

const (
	// waitFor is how long a handshake waits for an order, and orderTime how long an order
	// may take.
	waitFor   = 90 * time.Second
	orderTime = 3 * time.Minute
	// renewRatio is the part of a certificate's lifetime that is left when it is renewed,
	// if the authority does not say when (ARI). Each certificate has its own ratio, up
	// to renewJitter less, so that those that were ordered together are not renewed together.
	renewRatio  = 1.0 / 3
	renewJitter = 1.0 / 12
	renewKinds  = 8
	// checkEvery is how often certificates are checked for renewal; those with a short life
	// more often.
	checkEvery    = 10 * time.Minute
	checksPerLife = 24
	// Certificates are deleted from the store some time after they expired.
	cleanEvery = 24 * time.Hour
	cleanAfter = 14 * 24 * time.Hour
)

// Grant says that a name may have a certificate.
type Grant struct {
	// Subject is the name in the certificate: the name itself, or a wildcard that covers it.
	Subject string
	// Owner is the organization whose orders are counted; "" is the server.
	Owner string
}

// Refusal is why a name must not have a certificate.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Options configure a Manager.
type Options struct {
	// Email is the address of the account, Directory the URL of the authority; "" is Let's
	// Encrypt. Roots authenticate it; nil means the system's.
	Email, Directory string
	Roots            *x509.CertPool
	// Hook is a program that creates DNS records. Without it no wildcard can be ordered.
	Hook  string
	Store Store
	// HTTP and TLS are the addresses at which the caller serves challenges.
	HTTP, TLS net.Addr
	// Default is the name for clients that send none.
	Default string
	// Decide returns a Refusal if a name must not have a certificate, and another error if it
	// cannot tell.
	Decide func(ctx context.Context, name string) (Grant, error)
	Log    *slog.Logger
}

// Manager obtains, keeps and renews certificates. It is a background.Service.
type Manager struct {
	background.Part
	options Options
	storage *storage
	limits  limits
	issuer  *certmagic.ACMEIssuer // of challenges without DNS
	cache   *certmagic.Cache
	// single and wildcard order certificates, renewing are the same with different ratios.
	single, wildcard *certmagic.Config
	renewing         [2][renewKinds]*certmagic.Config

	mu       sync.Mutex
	stopped  bool
	running  background.WaitGroup // orders
	orders   map[string]*order
	managed  map[string]managed // by subject
	interval time.Duration      // between checks for renewal
	changed  chan struct{}      // the interval is shorter now
	work     context.Context    // until Stop
	counts   [outcomes]atomic.Int64
}

// managed is a certificate in memory.
type managed struct {
	name    string // for which it was first needed
	expires time.Time
}

// order is the load or the order of one certificate, for all handshakes that wait for it.
type order struct {
	done chan struct{}
	err  error
}

var _ background.Service = (*Manager)(nil)

// New returns a manager that is not running.
func New(o Options) *Manager {
	return &Manager{
		options: o, storage: &storage{files: o.Store, log: o.Log, held: map[string]heldLock{}},
		limits: newLimits(), orders: map[string]*order{}, managed: map[string]managed{}, interval: checkEvery,
		changed: make(chan struct{}, 1),
	}
}

// Start starts renewing. It contacts no authority.
func (m *Manager) Start(ctx context.Context) error {
	return m.Launch(ctx, func(work context.Context, spawn func(func())) error {
		m.work = work
		m.build()
		spawn(func() { m.maintain(work) })
		return nil
	})
}

// Stop cancels orders, and waits until they have released their locks.
func (m *Manager) Stop() {
	m.Halt(func() {
		m.mu.Lock()
		m.stopped = true
		m.mu.Unlock()
		m.running.Wait()
		m.cache.Stop()
	})
}

// build creates what certmagic needs.
func (m *Manager) build() {
	o, log := m.options, newLogger(m.options.Log)
	m.cache = certmagic.NewCache(m.cacheOptions(checkEvery))
	issuer := certmagic.ACMEIssuer{
		CA: o.Directory, Email: o.Email, Agreed: true, TrustedRoots: o.Roots, Logger: log, CertObtainTimeout: orderTime,
	}
	if host, port, ok := hostPort(o.HTTP); ok {
		issuer.ListenHost, issuer.AltHTTPPort = host, port
	} else {
		issuer.DisableHTTPChallenge = true
	}
	if host, port, ok := hostPort(o.TLS); ok {
		issuer.ListenHost, issuer.AltTLSALPNPort = host, port
	}
	config := func(template certmagic.ACMEIssuer, ratio float64) (*certmagic.Config, *certmagic.ACMEIssuer) {
		c := certmagic.New(m.cache, certmagic.Config{Storage: m.storage, Logger: log, RenewalWindowRatio: ratio,
			DisableStorageCheck: true})
		made := certmagic.NewACMEIssuer(c, template)
		c.Issuers = []certmagic.Issuer{made}
		return c, made
	}
	dns := issuer
	dns.DNS01Solver = hook{o.Hook, o.Log}
	m.single, m.issuer = config(issuer, renewRatio)
	m.wildcard, _ = config(dns, renewRatio)
	for i := range renewKinds {
		ratio := renewRatio - renewJitter*float64(i)/renewKinds
		m.renewing[0][i], _ = config(issuer, ratio)
		m.renewing[1][i], _ = config(dns, ratio)
	}
}

func hostPort(a net.Addr) (host string, port int, ok bool) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return "", 0, false
	}
	return tcp.IP.String(), tcp.Port, true
}

func (m *Manager) cacheOptions(interval time.Duration) certmagic.CacheOptions {
	return certmagic.CacheOptions{
		RenewCheckInterval: interval, Logger: newLogger(m.options.Log),
		GetConfigForCert: func(c certmagic.Certificate) (*certmagic.Config, error) {
			if len(c.Names) == 0 {
				return nil, errors.New("the certificate has no name")
			}
			sum := fnv.New32a()
			_, _ = sum.Write([]byte(c.Names[0]))
			kind := 0
			if isWildcard(c.Names[0]) {
				kind = 1
			}
			return m.renewing[kind][sum.Sum32()%renewKinds], nil
		},
	}
}

func isWildcard(subject string) bool { return strings.HasPrefix(subject, "*.") }

func (m *Manager) configOf(subject string) *certmagic.Config {
	if isWildcard(subject) {
		return m.wildcard
	}
	return m.single
}

// ServeChallenge answers an authority that checks a name by HTTP. It returns false if the
// request is another one.
func (m *Manager) ServeChallenge(w http.ResponseWriter, r *http.Request) bool {
	if !certmagic.LooksLikeHTTPChallenge(r) {
		return false
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	_, err = m.options.Decide(r.Context(), strings.ToLower(host))
	return err == nil && m.issuer.HandleHTTPChallenge(w, r)
}

// Certificate returns the certificate for a client. If it has to be ordered first, the client
// waits. It returns nil for names without one.
func (m *Manager) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if hello.ServerName == "" {
		hello.ServerName = m.options.Default
	}
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	challenge := len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == ChallengeProtocol
	if !challenge {
		if cert, err := m.single.GetCertificate(hello); err == nil {
			return cert, nil
		}
	}
	if !certmagic.SubjectQualifiesForCert(name) || certmagic.SubjectIsIP(name) {
		return nil, nil //nolint:nilnil // the client is told that the name is not known here
	}
	ctx, cancel := context.WithTimeout(m.work, waitFor)
	defer cancel()
	grant, err := m.options.Decide(ctx, name)
	if err != nil {
		m.options.Log.Debug("no certificate for a name", "name", name, "reason", err)
		return nil, nil //nolint:nilnil,nilerr // as above
	}
	if challenge {
		return m.single.GetCertificate(hello)
	}
	if err := m.wait(ctx, hello, name, grant); err != nil {
		return nil, fmt.Errorf("certificate for %s: %w", name, err)
	}
	return m.single.GetCertificate(hello)
}

// wait loads or orders a certificate, or waits until another handshake has.
func (m *Manager) wait(ctx context.Context, hello *tls.ClientHelloInfo, name string, grant Grant) error {
	m.mu.Lock()
	o, ok := m.orders[grant.Subject]
	if m.stopped {
		m.mu.Unlock()
		return errors.New("the server stops")
	}
	if !ok {
		if err := m.limits.recently(grant.Subject, time.Now()); err != nil {
			m.mu.Unlock()
			return err
		}
		o = &order{done: make(chan struct{})}
		m.orders[grant.Subject] = o
		m.running.Go("certificate order", func() { m.fulfil(o, name, grant) })
	}
	m.mu.Unlock()
	// The client waits longer than it may take for its own part.
	deadline, _ := ctx.Deadline()
	_ = hello.Conn.SetDeadline(deadline.Add(handshakeRest))
	defer func() { _ = hello.Conn.SetDeadline(time.Now().Add(handshakeRest)) }()
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		return errors.New("the certificate authority has not issued it yet; try again in a moment")
	}
}

// handshakeRest is how long the rest of a handshake may take.
const handshakeRest = 10 * time.Second

// fulfil puts a certificate in memory, and ends the order.
func (m *Manager) fulfil(o *order, name string, grant Grant) {
	o.err = errors.New("the order failed")
	defer func() {
		m.mu.Lock()
		delete(m.orders, grant.Subject)
		m.mu.Unlock()
		close(o.done)
	}()
	ctx, cancel := context.WithTimeout(m.work, orderTime)
	defer cancel()
	o.err = m.obtain(ctx, name, grant)
}

func (m *Manager) obtain(ctx context.Context, name string, grant Grant) error {
	config := m.configOf(grant.Subject)
	cert, err := config.CacheManagedCertificate(ctx, grant.Subject)
	ordered := false
	if errors.Is(err, fs.ErrNotExist) {
		ordered = true
		err = m.limits.take(grant.Owner, time.Now())
		if err != nil {
			m.count(refused)
			m.options.Log.Warn("a certificate was not ordered: too many were ordered in a short time", "name", grant.Subject,
				"owner", grant.Owner, "reason", err)
			return err
		}
		m.options.Log.Info("ordering a certificate", "name", grant.Subject)
		if err = config.ObtainCertSync(ctx, grant.Subject); err == nil {
			cert, err = config.CacheManagedCertificate(ctx, grant.Subject)
		}
	}
	if err != nil {
		if m.work.Err() == nil {
			again := m.limits.failed(grant.Subject, ordered, time.Now())
			m.options.Log.Warn("no certificate for a host, so its clients cannot connect", "name", grant.Subject, "error", err,
				"next_try_after", again.String())
			m.count(failed)
		}
		return err
	}
	m.limits.succeeded(grant.Subject)
	if ordered {
		m.count(issued)
		m.options.Log.Info("certificate issued", "name", grant.Subject, "expires", cert.Leaf.NotAfter)
	}
	m.manage(grant.Subject, name, cert.Leaf)
	return nil
}

// manage remembers a certificate, and checks more often if its life is short.
func (m *Manager) manage(subject, name string, leaf *x509.Certificate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.managed[subject] = managed{name, leaf.NotAfter}
	interval := max(leaf.NotAfter.Sub(leaf.NotBefore)/checksPerLife, time.Second)
	if interval >= m.interval {
		return
	}
	m.interval = interval
	m.cache.SetOptions(m.cacheOptions(interval))
	background.Kick(m.changed)
}
