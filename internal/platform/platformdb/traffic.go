package platformdb

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"ingot/internal/base/db"
	"ingot/internal/platform"
)

// AddTraffic adds requests to those of instances, by guid, in batches. It returns the
// instances of the batches that were stored.
func (s *Store) AddTraffic(ctx context.Context, more map[string]platform.Traffic) (stored []string, err error) {
	for guids := range slices.Chunk(slices.Sorted(maps.Keys(more)), purgeBatch) {
		err := s.db.Update(ctx, func(tx *db.Tx) error {
			sums, err := trafficOf(tx, guids)
			if err != nil {
				return err
			}
			for _, guid := range guids {
				sum := sums[guid]
				sum.Add(more[guid])
				text, err := json.Marshal(sum)
				if err != nil {
					return err
				}
				_, err = tx.Exec(`INSERT INTO platform_instance_traffic (instance_guid, traffic) VALUES (?, ?)
					ON CONFLICT (instance_guid) DO UPDATE SET traffic = excluded.traffic`, guid, string(text))
				if err != nil {
					return written(err)
				}
			}
			return nil
		})
		if err != nil {
			return stored, err
		}
		stored = append(stored, guids...)
	}
	return stored, nil
}

// Traffic returns the requests to instances that servers have added, by guid.
func (s *Store) Traffic(ctx context.Context, guids ...string) (map[string]platform.Traffic, error) {
	return db.Within(ctx, s.db.View, func(tx *db.Tx) (map[string]platform.Traffic, error) {
		return trafficOf(tx, guids)
	})
}

func trafficOf(tx *db.Tx, guids []string) (map[string]platform.Traffic, error) {
	sums := make(map[string]platform.Traffic, len(guids))
	for _, guid := range guids {
		var text string
		err := tx.QueryRow("SELECT traffic FROM platform_instance_traffic WHERE instance_guid = ?", guid).Scan(&text)
		if missing(err) {
			continue
		}
		var sum platform.Traffic
		if err == nil {
			err = json.Unmarshal([]byte(text), &sum)
		}
		if err != nil {
			return nil, err
		}
		sums[guid] = sum
	}
	return sums, nil
}

// PurgeTraffic forgets the requests to instances that no longer exist.
func (s *Store) PurgeTraffic(ctx context.Context) error {
	return s.db.Update(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec("DELETE FROM platform_instance_traffic WHERE NOT EXISTS (SELECT 1 FROM platform_instances i " +
			"WHERE i.guid = instance_guid)")
		return written(err)
	})
}
