//go:build linux

package main

import (
	"bytes"
	"context"
	"testing"
	"time"
)

// backup lets the timer make a backup, and restores it in another guest.
func backup(t *testing.T, s *site) {
	s.install(t)
	s.push(t, "page", "-m 64M -k 128M")
	if _, err := s.users(t, "keeper-postgres"); err != nil {
		s.keeper(t, "keeper-postgres", "postgres", "small")
	}
	s.stores(t, "keeper-postgres", 3)
	want, err := s.users(t, "keeper-postgres")
	if err != nil {
		t.Fatal(err)
	}
	// The timer as packaged, but every few seconds.
	took := s.timed(t, `cd /srv; rm -rf /srv/backup
ingot backup keygen --output key.txt | grep ^INGOT_ >/etc/default/ingot-backup
echo INGOT_BACKUP_TARGET=/srv/backup >>/etc/default/ingot-backup; chmod 600 /etc/default/ingot-backup
mkdir -p /etc/systemd/system/ingot-backup.timer.d
printf '[Timer]\nOnCalendar=\nOnCalendar=*:*:0/10\nRandomizedDelaySec=0\nAccuracySec=1\n' >/etc/systemd/system/ingot-backup.timer.d/soon.conf
systemctl daemon-reload; systemctl enable --now ingot-backup.timer
for i in $(seq 1500); do ingot backup list /srv/backup 2>/dev/null | grep -q sqlite && break; sleep 0.4; done
systemctl disable --now ingot-backup.timer
while [ "$(systemctl is-active ingot-backup)" = activating ]; do sleep 0.2; done
[ "$(systemctl show -P Result ingot-backup)" = success ] || { journalctl --no-pager -u ingot-backup; exit 1; }
rm -r /etc/systemd/system/ingot-backup.timer.d
ingot backup verify /srv/backup --key key.txt`)
	row(t, "backup by the timer, verified", "", seconds(took))
	var archive bytes.Buffer
	if err := s.stream(t, "tar -C /srv -c backup key.txt", nil, &archive); err != nil {
		t.Fatal(err)
	}

	// The first guest ends: its memory is needed, and nothing of it must help.
	s.discard()
	s.boot(t)
	if err := s.stream(t, "tar -C /srv -x", &archive, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	s.run(t, "apt-get install -y -q /files/ingot.deb </dev/null\n"+configure)
	row(t, "restore in another guest", "", seconds(s.timed(t,
		"ingot restore /srv/backup --key /srv/key.txt --data-dir /var/lib/ingot")))
	began := time.Now()
	s.run(t, "systemctl enable --now ingot"+serverReady+logIn)
	s.answers(t, "page")
	eventually(t, "the database answers", func() bool {
		_, err := s.users(t, "keeper-postgres")
		return err == nil
	})
	row(t, "start after the restore until apps and their database answer", "", seconds(time.Since(began)))
	got, err := s.users(t, "keeper-postgres")
	if err != nil {
		t.Fatal(err)
	}
	for u := range want {
		if !got[u] {
			t.Errorf("the user %s is lost", u.Email)
		}
	}
}

func (s *site) stream(t *testing.T, script string, in *bytes.Buffer, out *bytes.Buffer) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if in == nil {
		return s.guest.stream(ctx, "root", script, nil, out)
	}
	return s.guest.stream(ctx, "root", script, in, out)
}
