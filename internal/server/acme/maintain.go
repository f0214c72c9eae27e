package acme

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/prometheus/client_golang/prometheus"
)

// maintain renews certificates until ctx is canceled.
func (m *Manager) maintain(ctx context.Context) {
	var cleaned time.Time
	for {
		m.mu.Lock()
		timer := time.NewTimer(m.interval)
		m.mu.Unlock()
		select {
		case <-timer.C:
		case <-m.changed:
			timer.Stop()
			continue
		case <-ctx.Done():
			timer.Stop()
			return
		}
		m.release(ctx)
		if err := m.cache.RenewManagedCertificates(ctx); err != nil && ctx.Err() == nil {
			m.options.Log.Warn("certificates could not be renewed; this is tried again", "error", err)
		}
		m.refresh(ctx)
		if time.Since(cleaned) > cleanEvery {
			cleaned = time.Now()
			err := certmagic.CleanStorage(ctx, m.storage, certmagic.CleanStorageOptions{
				Logger: newLogger(m.options.Log), Interval: cleanEvery, OCSPStaples: true, ExpiredCerts: true,
				ExpiredCertGracePeriod: cleanAfter,
			})
			if err != nil && ctx.Err() == nil {
				m.options.Log.Warn("expired certificates could not be deleted; this is tried again tomorrow", "error", err)
			}
		}
	}
}

// release forgets certificates of names that may not have one any more, so that they are not
// renewed.
func (m *Manager) release(ctx context.Context) {
	m.mu.Lock()
	all := maps.Clone(m.managed)
	m.mu.Unlock()
	var gone []certmagic.SubjectIssuer
	for _, subject := range slices.Sorted(maps.Keys(all)) {
		grant, err := m.options.Decide(ctx, all[subject].name)
		var refused Refusal
		if err == nil && grant.Subject == subject || err != nil && !errors.As(err, &refused) {
			continue // if it cannot be told, the database may be away
		}
		m.options.Log.Info("a certificate is no longer needed and will not be renewed", "name", subject)
		gone = append(gone, certmagic.SubjectIssuer{Subject: subject})
		m.mu.Lock()
		delete(m.managed, subject)
		m.mu.Unlock()
	}
	if len(gone) > 0 {
		m.cache.RemoveManaged(gone)
	}
}

// refresh notes when renewed certificates expire.
func (m *Manager) refresh(context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for subject, one := range m.managed {
		for _, cert := range m.cache.AllMatchingCertificates(subject) {
			if cert.Leaf != nil && cert.Leaf.NotAfter.After(one.expires) {
				m.options.Log.Info("certificate renewed", "name", subject, "expires", cert.Leaf.NotAfter)
				m.managed[subject] = managed{one.name, cert.Leaf.NotAfter}
				m.counts[renewed].Add(1)
			}
		}
	}
}

// The outcomes of orders.
const (
	issued = iota
	failed
	refused
	renewed
	outcomes
)

var outcomeNames = [outcomes]string{issued: "issued", failed: "failed", refused: "refused", renewed: "renewed"}

func (m *Manager) count(outcome int) { m.counts[outcome].Add(1) }

var (
	ordersDesc = prometheus.NewDesc("ingot_acme_orders_total",
		"Orders of certificates, by outcome; refused ones exceed the limits of this server.", []string{"outcome"}, nil)
	certsDesc   = prometheus.NewDesc("ingot_acme_certificates", "Certificates in use on this server.", nil, nil)
	expiresDesc = prometheus.NewDesc("ingot_acme_next_expiry_timestamp_seconds",
		"When the next certificate in use expires, unless it is renewed.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m *Manager) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{ordersDesc, certsDesc, expiresDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Manager) Collect(out chan<- prometheus.Metric) {
	for i, name := range outcomeNames {
		out <- prometheus.MustNewConstMetric(ordersDesc, prometheus.CounterValue, float64(m.counts[i].Load()), name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out <- prometheus.MustNewConstMetric(certsDesc, prometheus.GaugeValue, float64(len(m.managed)))
	var next time.Time
	for _, one := range m.managed {
		if next.IsZero() || one.expires.Before(next) {
			next = one.expires
		}
	}
	if !next.IsZero() {
		out <- prometheus.MustNewConstMetric(expiresDesc, prometheus.GaugeValue, float64(next.Unix()))
	}
}

// Expiries returns when the certificates in use expire, by what they are for.
func (m *Manager) Expiries() map[string]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string]time.Time, len(m.managed))
	for subject, one := range m.managed {
		all[subject] = one.expires
	}
	return all
}
