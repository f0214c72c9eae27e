package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"ingot/internal/base/plural"
	"ingot/internal/server/installation"
	"ingot/internal/system"
)

// backupOptions are the flags of 'ingot backup TARGET', and its subcommands.
type backupOptions struct {
	DataDir      string   `long:"data-dir" env:"INGOT_DATA_DIR" value-name:"DIR" description:"Data directory of the server"`
	DatabaseURL  string   `long:"database-url" env:"INGOT_DATABASE_URL" value-name:"URL" description:"Database of the server, if it has the flag"`
	BlobURL      string   `long:"blob-url" env:"INGOT_BLOB_URL" value-name:"URL" description:"Bucket of the server, if it has the flag"`
	PostgresURL  string   `long:"postgres-url" env:"INGOT_POSTGRES_URL" value-name:"URL" description:"External PostgreSQL of the server's services, if it has the flag; its data is not in the backup"`
	MySQLURL     string   `long:"mysql-url" env:"INGOT_MYSQL_URL" value-name:"URL" description:"External MariaDB of the server's services, if it has the flag; its data is not in the backup"`
	Recipients   string   `long:"recipient" env:"INGOT_BACKUP_RECIPIENTS" needed:"yes" value-name:"KEYS" description:"Public keys, age1…, of those who can read the backup, separated by commas; 'ingot backup keygen' creates one"`
	Keep         int      `long:"keep" env:"INGOT_BACKUP_KEEP" value-name:"N" description:"Remove all backups of the directory or bucket but the newest N afterwards (default: all are kept)"`
	SkipServices bool     `long:"skip-services" env:"INGOT_BACKUP_SKIP_SERVICES" description:"Leave out the data of service instances"`
	target       []string // what is not a flag
	logOptions

	Keygen  backupKeygenOptions     `command:"keygen" description:"Create a key for backups" long-description:"Creates a private key in a file and prints what belongs to it and is for the server: the public key (--recipient), with which it can write backups but not read them, and the signing key (INGOT_BACKUP_SIGNING_KEY), which proves that it wrote them. Keep the file away from the server and from the backups, in two places: without it no backup can be restored. The file has the format of age-keygen."`
	Signing backupSigningKeyOptions `command:"signing-key" description:"Show the signing key that belongs to a private key" long-description:"Prints the signing key that belongs to a private key, for the server, and its public part, for others who restore its backups (--signer). Run it where the private key is."`
	List    backupListOptions       `command:"list" description:"List the backups of a directory or bucket"`
	Verify  backupVerifyOptions     `command:"verify" description:"Check a backup completely" long-description:"Reads a whole backup, compares all checksums, opens the databases and checks them, and that every package, droplet and buildpack that they refer to is there. It needs the private key, and as much room in TMPDIR as the databases take."`
	Prune   backupPruneOptions      `command:"prune" description:"Remove old backups" long-description:"Removes all backups of a directory or bucket but the newest, and what only they needed."`
	Status  backupStatusOptions     `command:"status" description:"Show the last backup of a server"`
}

type backupTargetOptions struct {
	Args struct {
		Target string `positional-arg-name:"TARGET" description:"Directory, file or s3://BUCKET/PREFIX?PARAMETERS"`
	} `positional-args:"yes" required:"yes"`
	logOptions
}

type backupKeygenOptions struct {
	Output     string `long:"output" short:"o" required:"yes" value-name:"FILE" description:"File for the private key, which must not exist"`
	Passphrase bool   `long:"passphrase" description:"Encrypt the file with a passphrase: asked for, or from INGOT_BACKUP_PASSPHRASE"`
}

type backupSigningKeyOptions struct {
	Key string `long:"key" env:"INGOT_BACKUP_KEY" needed:"yes" value-name:"FILE" description:"File with the private key; if it is encrypted, its passphrase is asked for, or from INGOT_BACKUP_PASSPHRASE"`
}

type backupListOptions struct{ backupTargetOptions }

type backupKeyOptions struct {
	Key string `long:"key" env:"INGOT_BACKUP_KEY" needed:"yes" value-name:"FILE" description:"File with the private key; if it is encrypted, its passphrase is asked for, or from INGOT_BACKUP_PASSPHRASE"`
	ID  string `long:"id" value-name:"ID" description:"Backup of a directory or bucket (default: the newest)"`

	Signers        string `long:"signer" env:"INGOT_BACKUP_SIGNERS" value-name:"KEYS" description:"Public parts of signing keys, ingot-signer-…, separated by commas, whose backups are accepted beside those of the signing key that belongs to the private key"`
	AcceptUnsigned bool   `long:"accept-unsigned" description:"Accept a backup that is not signed, of a server without a signing key: anyone who knows the public key and can write there may have made it"`
}

type backupVerifyOptions struct {
	backupKeyOptions
	backupTargetOptions
}

type backupPruneOptions struct {
	Keep int `long:"keep" required:"yes" value-name:"N" description:"Number of backups to keep"`
	backupTargetOptions
}

type backupStatusOptions struct {
	DataDir     string `long:"data-dir" env:"INGOT_DATA_DIR" value-name:"DIR" description:"Data directory of the server"`
	DatabaseURL string `long:"database-url" env:"INGOT_DATABASE_URL" value-name:"URL" description:"Database of the server, if it has the flag"`
	logOptions
}

// restoreOptions are the flags of 'ingot restore'.
type restoreOptions struct {
	backupKeyOptions
	DataDir      string `long:"data-dir" env:"INGOT_DATA_DIR" value-name:"DIR" description:"Data directory to create; it must not exist, or be empty"`
	DatabaseURL  string `long:"database-url" env:"INGOT_DATABASE_URL" value-name:"URL" description:"Empty PostgreSQL database, for the backup of a server with PostgreSQL"`
	BlobURL      string `long:"blob-url" env:"INGOT_BLOB_URL" value-name:"URL" description:"Bucket for packages, droplets and buildpacks (default: the data directory)"`
	SkipServices bool   `long:"skip-services" description:"Do not restore service instances"`
	backupTargetOptions
}

// backup runs 'ingot backup TARGET'.
func (p *process) backup(o backupOptions) error {
	log, err := p.logger(o.logOptions)
	if target := p.getenv("INGOT_BACKUP_TARGET"); len(o.target) == 0 && target != "" {
		o.target = []string{target}
	}
	switch {
	case err != nil:
		return &usageError{err.Error(), "backup"}
	case len(o.target) == 0:
		return &usageError{"the target is missing: a directory, a file or s3://BUCKET/PREFIX, or the variable " +
			"INGOT_BACKUP_TARGET", "backup"}
	case len(o.target) > 1:
		return &usageError{fmt.Sprintf("unexpected argument %q", o.target[1]), "backup"}
	case o.Recipients == "":
		return &usageError{"--recipient is required: backups are encrypted. Create a key with 'ingot backup keygen " +
			"--output FILE', on another machine if possible", "backup"}
	case o.Keep < 0:
		return &usageError{"--keep: it is negative", "backup"}
	}
	ctx, stop := p.untilAsked(log)
	defer stop()
	began := time.Now()
	state, err := system.Parts().Backup(ctx, installation.BackupConfig{
		DataDir: o.DataDir, DatabaseURL: o.DatabaseURL, BlobURL: o.BlobURL, PostgresURL: o.PostgresURL, MySQLURL: o.MySQLURL,
		EncryptionKey: p.getenv("INGOT_ENCRYPTION_KEY"), Target: o.target[0], Recipients: o.Recipients,
		SigningKey: p.getenv("INGOT_BACKUP_SIGNING_KEY"), Keep: o.Keep, SkipServices: o.SkipServices,
		Log: log, Tell: p.tellLine,
	})
	if ctx.Err() != nil && err != nil && state.Unsaved == 0 {
		return fmt.Errorf("interrupted: %w. No backup was written", context.Cause(ctx))
	}
	if err != nil && state.Unsaved == 0 {
		return err
	}
	fmt.Fprintf(p.out, "Backup %s written to %s in %v\n%s\n", state.ID, state.Target, time.Since(began).
		Round(10*time.Millisecond), contents(state))
	if state.Missing > 0 {
		fmt.Fprintf(p.out, "Packages, droplets or buildpacks that are missing or damaged on the server: %d; the log names "+
			"them.\n", state.Missing)
	}
	return err
}

func contents(s installation.BackupState) string {
	text := fmt.Sprintf("Contains the databases, keys, %s of packages, droplets and buildpacks (%s) and the data of %s; "+
		"wrote %s", plural.Count(s.Blobs, "file"), megabytes(s.BlobSize), plural.Count(s.Services, "service instance"),
		megabytes(s.Added))
	if s.Unsigned {
		text += "\nNot signed: a restore needs --accept-unsigned. Set INGOT_BACKUP_SIGNING_KEY, which 'ingot backup " +
			"signing-key --key FILE' shows where the private key is"
	}
	if s.Unsaved > 0 {
		text += "\nDoes not contain the data of " + plural.Count(s.Unsaved, "service instance") + ", which could not be saved"
	}
	return text
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

func (p *process) tellLine(line string) { fmt.Fprintln(p.out, line) }

// backupKeygen creates a key.
func (p *process) backupKeygen(o backupKeygenOptions) error {
	passphrase := ""
	if o.Passphrase {
		var err error
		if passphrase, err = p.passphrase(true); err != nil {
			return err
		}
	}
	recipient, signingKey, err := installation.NewBackupKey(o.Output, passphrase)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s already exists: backups may need the key in it, name another file", o.Output)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "The private key is in %s. Keep it in two places, but not on the server and not beside the "+
		"backups:\n"+
		"without it no backup can be restored, and with it anyone can read them.\n"+
		"The public key and the signing key are for the server. The signing key is a secret:\nwith it anyone can make "+
		"backups that look like those of the server.\n\n"+
		"INGOT_BACKUP_RECIPIENTS=%s\nINGOT_BACKUP_SIGNING_KEY=%s\n", o.Output, recipient, signingKey)
	return nil
}

// backupSigningKey shows the signing key of a private key.
func (p *process) backupSigningKey(o backupSigningKeyOptions) error {
	private, public, err := p.backupKey(backupKeyOptions{Key: o.Key}).SigningKeys()
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "The signing key is a secret, for the server: with it anyone can make backups that look like "+
		"those of the server.\n\n"+
		"INGOT_BACKUP_SIGNING_KEY=%s\n\nIts public part, for others who restore these backups:\n\nINGOT_BACKUP_SIGNERS=%s\n",
		strings.Join(private, ","), strings.Join(public, ","))
	return nil
}

// passphrase returns the passphrase of a key, from the environment or the terminal. New
// asks twice.
func (p *process) passphrase(isNew bool) (string, error) {
	if given := p.getenv("INGOT_BACKUP_PASSPHRASE"); given != "" {
		return given, nil
	}
	in, ok := p.in.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return "", errors.New("the passphrase of the key is needed: set INGOT_BACKUP_PASSPHRASE, or run this in a terminal")
	}
	ask := func(question string) (string, error) {
		fmt.Fprint(p.err, question)
		defer fmt.Fprintln(p.err)
		return readPassword(context.Background(), int(in.Fd()))
	}
	first, err := ask("Passphrase of the key: ")
	if err != nil || !isNew {
		return first, err
	}
	second, err := ask("Once more: ")
	if err == nil && (first != second || first == "") {
		err = errors.New("the passphrases are empty or differ")
	}
	return first, err
}

// listBackups lists backups.
func (p *process) listBackups(o backupListOptions) error {
	log, err := p.logger(o.logOptions)
	if err != nil {
		return &usageError{err.Error(), "backup list"}
	}
	ctx, stop := p.untilAsked(log)
	defer stop()
	all, err := system.Parts().List(ctx, o.Args.Target, log)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		fmt.Fprintln(p.out, "No backups found.")
		return nil
	}
	table := tabwriter.NewWriter(p.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "id\tcreated\ttook\tdatabase\tblobs\tarchive\tadded\tversion")
	for _, i := range all {
		fmt.Fprintf(table, "%s\t%s\t%v\t%s\t%d, %s\t%s\t%s\t%s\n", i.ID, i.Created.Local().Format("2006-01-02 15:04:05"),
			i.Finished.Sub(i.Created).Round(10*time.Millisecond), i.Database,
			len(i.Objects), megabytes(i.BlobSize), megabytes(i.Size), megabytes(i.Added), i.Ingot)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, i := range all {
		if i.Unsaved > 0 {
			fmt.Fprintf(p.out, "%s lacks the data of %s, which could not be saved\n", i.ID,
				plural.Count(i.Unsaved, "service instance"))
		}
	}
	return nil
}

// verifyBackup checks a backup.
func (p *process) verifyBackup(o backupVerifyOptions) error {
	log, err := p.logger(o.logOptions)
	if err != nil {
		return &usageError{err.Error(), "backup verify"}
	}
	ctx, stop := p.untilAsked(log)
	defer stop()
	m, err := system.Parts().Verify(ctx, o.Args.Target, o.ID, p.backupKey(o.backupKeyOptions), log)
	if err != nil {
		return err
	}
	var size int64
	for _, b := range m.Blobs {
		size += b.Size
	}
	fmt.Fprintf(p.out, "Backup %s of %s, made by ingot %s, is complete: %s, and %s of packages, droplets and buildpacks "+
		"(%s)\n",
		m.ID, m.Created.Local().Format("2006-01-02 15:04:05"), m.Ingot, plural.Count(len(m.Files), "file"),
		plural.Count(len(m.Blobs), "file"), megabytes(size))
	if m.Signer != "" {
		fmt.Fprintf(p.out, "Signed by %s\n", m.Signer)
	} else {
		fmt.Fprintln(p.out, "Not signed: anyone who knows the public key and can write there may have made it")
	}
	if m.Position != "" {
		fmt.Fprintf(p.out, "Position of PostgreSQL: %s\n", m.Position)
	}
	if len(m.Missing) > 0 {
		fmt.Fprintf(p.out, "Missing on the server already: %s\n", strings.Join(m.Missing, ", "))
	}
	if n := system.Parts().UnsavedServices(m); n > 0 {
		fmt.Fprintf(p.out, "The data of %s could not be saved and is not in it\n", plural.Count(n, "service instance"))
	}
	return nil
}

func (p *process) backupKey(o backupKeyOptions) installation.BackupKey {
	return installation.BackupKey{
		File: o.Key, Passphrase: func() (string, error) { return p.passphrase(false) }, Signers: o.Signers,
		AcceptUnsigned: o.AcceptUnsigned,
	}
}

// pruneBackups removes old backups.
func (p *process) pruneBackups(o backupPruneOptions) error {
	log, err := p.logger(o.logOptions)
	if err != nil {
		return &usageError{err.Error(), "backup prune"}
	}
	if o.Keep < 1 {
		return &usageError{"--keep: at least one backup is kept", "backup prune"}
	}
	ctx, stop := p.untilAsked(log)
	defer stop()
	return system.Parts().Prune(ctx, o.Args.Target, o.Keep, log, p.tellLine)
}

// backupStatus shows the last backup.
func (p *process) backupStatus(o backupStatusOptions) error {
	log, err := p.logger(o.logOptions)
	if err != nil {
		return &usageError{err.Error(), "backup status"}
	}
	ctx, stop := p.untilAsked(log)
	defer stop()
	s, err := system.Parts().Last(ctx, o.DataDir, o.DatabaseURL, log)
	if err != nil {
		return err
	}
	at := func(t time.Time) string {
		return fmt.Sprintf("%s (%v ago)", t.Local().Format("2006-01-02 15:04:05"), time.Since(t).Round(time.Second))
	}
	switch {
	case s.Attempted.IsZero():
		fmt.Fprintln(p.out, "This server has no backup yet.")
	case s.Finished == nil:
		fmt.Fprintln(p.out, "No backup of this server has succeeded yet.")
	default:
		fmt.Fprintf(p.out, "Last backup: %s, %s, to %s, took %v\n%s\n", s.ID, at(*s.Finished), s.Target,
			s.Finished.Sub(s.Started).Round(10*time.Millisecond), contents(s))
	}
	if s.Failure != "" {
		fmt.Fprintf(p.out, "The last attempt failed, %s: %s\n", at(s.Attempted), s.Failure)
	}
	return nil
}

// restore runs 'ingot restore TARGET'.
func (p *process) restore(o restoreOptions) error {
	log, err := p.logger(o.logOptions)
	if err != nil {
		return &usageError{err.Error(), "restore"}
	}
	if o.DataDir == "" {
		return &usageError{errNoDataDir.Error(), "restore"}
	}
	ctx, stop := p.untilAsked(log)
	defer stop()
	err = system.Parts().Restore(ctx, installation.RestoreConfig{
		From: o.Args.Target, ID: o.ID, Key: p.backupKey(o.backupKeyOptions), DataDir: o.DataDir, DatabaseURL: o.DatabaseURL,
		BlobURL:      o.BlobURL,
		SkipServices: o.SkipServices, Log: log, Tell: p.tellLine,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "The data directory %s is complete. Start the server with 'ingot up --data-dir %s' and the flags "+
		"it had: it starts all apps.\n", o.DataDir, o.DataDir)
	return nil
}
