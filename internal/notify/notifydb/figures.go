package notifydb

import (
	"context"
	"slices"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/figures"
	"ingot/internal/notify/notifydb/query"
)

// Figures implements notify.Store.
func (s *Store) Figures(ctx context.Context, q notify.FigureQuery) (notify.FigureReport, error) {
	for _, text := range []*string{q.KindID, q.Domain, q.TemplateID} {
		if text != nil {
			if err := query.AllStorable(*text); err != nil {
				return notify.FigureReport{}, err
			}
		}
	}
	return query.View(ctx, s.db, func(tx *db.Tx) (notify.FigureReport, error) { return figures.Query(tx, q) })
}

// eraseFigures hides the domains of the person's addresses, unless somebody else got mail there: a domain with one
// address names its owner. Figures stay, as those of other domains.
func (s *Store) eraseFigures(ctx context.Context, e *erasure) error {
	addresses := []string{}
	if e.Email != "" {
		addresses = append(addresses, query.LowerASCII(e.Email))
	}
	err := s.eachMessage(ctx, e.Person, func(list []notify.Message) error {
		for _, m := range list {
			if a := query.LowerASCII(m.Email); a != "" && !slices.Contains(addresses, a) && len(addresses) < manyAddresses {
				addresses = append(addresses, a)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var domains []string
	for _, a := range addresses {
		if d := notify.DomainOf(a); d != "" && !slices.Contains(domains, d) {
			domains = append(domains, d)
		}
	}
	for _, domain := range domains {
		alone, err := s.aloneAt(ctx, e.Person, domain, addresses)
		if err != nil {
			return err
		}
		if !alone {
			continue
		}
		err = s.lock(ctx, func(tx *db.Tx) error { return s.figures.EraseDomain(tx, e.ClientID, e.All, domain) })
		if err != nil {
			return err
		}
		s.figures.Forget("")
	}
	return nil
}

// aloneAt reports whether a domain has figures, and no message to another address there is kept.
func (s *Store) aloneAt(ctx context.Context, p notify.Person, domain string, addresses []string) (bool, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) (bool, error) {
		counted, err := figures.Counted(tx, p.ClientID, p.All, domain)
		if err != nil || !counted {
			return false, err
		}
		list, err := query.TextList(addresses)
		if err != nil {
			return false, err
		}
		// What follows the last @ is the domain, so the text may not be in the middle.
		others, err := db.All(tx, query.ScanNumber, "SELECT number FROM notify_messages WHERE "+query.IndexIn(tx.Dialect(),
			"lower(email) || '>'")+" > 0 AND NOT ("+query.TextsIn(tx.Dialect(), "lower(email)")+") LIMIT 1", "@"+domain+">",
			list)
		return len(others) == 0, err
	})
}
