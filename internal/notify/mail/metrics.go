package mail

import (
	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/notify/failover"
)

var (
	postponedDesc = prometheus.NewDesc("ingot_notify_mail_postponed_total",
		"Mail that had no turn at its receiving domain, by reason: rate, slow, warm-up. It is no attempt.",
		[]string{"reason"}, nil)
	busyDesc = prometheus.NewDesc("ingot_notify_mail_busy_total",
		"Answers 421, 450, 451 and 452 that asked to send less to a domain.", nil, nil)
	domainsDesc = prometheus.NewDesc("ingot_notify_mail_domains",
		"Receiving domains that get less mail at present, by state: slow, lowered (they asked for less).",
		[]string{"state"}, nil)
	routeDesc = prometheus.NewDesc("ingot_notify_mail_route_up",
		"Whether a mail server is used: 0 while it is left alone after failures.", []string{"mail_server"}, nil)
	deliveredDesc = prometheus.NewDesc("ingot_notify_mail_route_delivered_total", "Mail accepted by a mail server.",
		[]string{"mail_server"}, nil)
)

// collector presents a Channel as metrics.
type collector struct{ *Channel }

// Describe implements prometheus.Collector.
func (collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{postponedDesc, busyDesc, domainsDesc, routeDesc, deliveredDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	number := func(d *prometheus.Desc, kind prometheus.ValueType, n float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, n, labels...)
	}
	n := c.pacer.Counts()
	number(postponedDesc, prometheus.CounterValue, float64(n.Rate), "rate")
	number(postponedDesc, prometheus.CounterValue, float64(n.Slow), "slow")
	number(postponedDesc, prometheus.CounterValue, float64(n.WarmUp), "warm-up")
	number(busyDesc, prometheus.CounterValue, float64(n.Busy))
	slow, lowered := c.pacer.Limited()
	number(domainsDesc, prometheus.GaugeValue, float64(slow), "slow")
	number(domainsDesc, prometheus.GaugeValue, float64(lowered), "lowered")
	for _, r := range c.routes {
		up := 1.0
		if r.main.Health().State == failover.Open {
			up = 0
		}
		number(routeDesc, prometheus.GaugeValue, up, r.Name)
		number(deliveredDesc, prometheus.CounterValue, float64(r.delivered.Load()), r.Name)
	}
}

// observe registers the metrics.
func (c *Channel) observe(r prometheus.Registerer) {
	if r != nil {
		r.MustRegister(collector{c})
	}
}
