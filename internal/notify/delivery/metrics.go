package delivery

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/notify"
)

// Metrics counts deliveries. A nil *Metrics counts nothing.
type Metrics struct {
	messages  *prometheus.CounterVec
	parked    prometheus.Counter
	inFlight  prometheus.Gauge
	waiting   prometheus.Gauge
	postponed *prometheus.GaugeVec
	expanding prometheus.Gauge
	lag       prometheus.Gauge
	journal   prometheus.Counter
	directory *prometheus.CounterVec
	cut       prometheus.Counter
	webhooks  *prometheus.CounterVec
}

// NewMetrics registers the metrics of the delivery.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ingot_notify_messages_total",
			Help: "Messages by outcome: queued, delivered, failed, retry (each temporary failure), undeliverable, " +
				"unsubscribed, canceled (while claimed), skipped (by a workflow or the user), digested, throttled.",
		}, []string{"status"}),
		parked: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ingot_notify_parked_total", Help: "Messages that failed because they could not be rendered.",
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ingot_notify_in_flight", Help: "Messages that are being delivered.",
		}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ingot_notify_waiting", Help: "Messages in the queue that are not final.",
		}),
		postponed: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ingot_notify_postponed",
			Help: "Messages in the queue that wait for another attempt, by channel, beside those of delayed steps and digests.",
		}, []string{"channel"}),
		expanding: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ingot_notify_expanding", Help: "Sends whose recipients this server is reading.",
		}),
		lag: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ingot_notify_expansion_lag_seconds", Help: "Age of the oldest send whose recipients are not all known.",
		}),
		journal: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ingot_notify_journal_errors_total",
			Help: "Deliveries that could not be written to the journal and waited for the database.",
		}),
		directory: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ingot_notify_directory_errors_total", Help: "Failed requests for recipients, by request.",
		}, []string{"question"}),
		cut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ingot_notify_cut_off_total",
			Help: "Sends with too many recipients, whose remaining recipients were not notified.",
		}),
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ingot_notify_webhook_calls_total", Help: "Webhook calls by result: ok, again, dropped.",
		}, []string{"result"}),
	}
	for _, s := range []notify.Status{notify.Queued, notify.Delivered, notify.Failed, notify.Retry, notify.Undeliverable,
		notify.Unsubscribed, notify.Canceled, notify.Skipped, notify.Digested, notify.Throttled} {
		m.messages.WithLabelValues(string(s))
	}
	r.MustRegister(m.messages, m.parked, m.inFlight, m.waiting, m.postponed, m.expanding, m.lag, m.journal, m.cut,
		m.directory, m.webhooks)
	return m
}

func (m *Metrics) outcomes(all []notify.Outcome) {
	if m == nil {
		return
	}
	counts := map[notify.Status]int{}
	for _, o := range all {
		if o.Entry == nil {
			counts[o.Status]++
		}
		if o.Parked {
			m.parked.Inc()
		}
	}
	for status, n := range counts {
		m.messages.WithLabelValues(string(status)).Add(float64(n))
	}
}

// claimed counts messages whose first attempt begins.
func (m *Metrics) claimed(all []notify.Claimed) {
	if m == nil {
		return
	}
	n := 0
	for i := range all {
		if all[i].Status == notify.Queued {
			n++
		}
	}
	m.messages.WithLabelValues(string(notify.Queued)).Add(float64(n))
}

// digested counts messages that became part of digests.
func (m *Metrics) digested(n int) {
	if m != nil {
		m.messages.WithLabelValues(string(notify.Digested)).Add(float64(n))
	}
}

func (m *Metrics) addInFlight(n int) {
	if m != nil {
		m.inFlight.Add(float64(n))
	}
}

// again says how many messages wait for another attempt.
func (m *Metrics) again(by [notify.ChannelCount]int) {
	if m == nil {
		return
	}
	for id, n := range by {
		m.postponed.WithLabelValues(notify.ChannelID(id).String()).Set(float64(n))
	}
}

func (m *Metrics) queue(n int) {
	if m != nil {
		m.waiting.Set(float64(n))
	}
}

func (m *Metrics) expansions(n int, lag time.Duration) {
	if m != nil {
		m.expanding.Set(float64(n))
		m.lag.Set(lag.Seconds())
	}
}

func (m *Metrics) journalFailed() {
	if m != nil {
		m.journal.Inc()
	}
}

func (m *Metrics) cutOff() {
	if m != nil {
		m.cut.Inc()
	}
}

func (m *Metrics) directoryFailed(question string) {
	if m != nil {
		m.directory.WithLabelValues(question).Inc()
	}
}

func (m *Metrics) called(result string) {
	if m != nil {
		m.webhooks.WithLabelValues(result).Inc()
	}
}
