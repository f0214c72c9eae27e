package main

import (
	"fmt"

	"ingot/internal/system"
)

// blobOptions are the subcommands of 'ingot blob'.
type blobOptions struct {
	Copy blobCopyOptions `command:"copy" description:"Copy packages, droplets and buildpacks to another store" long-description:"Copies all packages, droplets, buildpacks and build caches from one store to another and compares their checksums. Blobs that the other store already has are skipped, so an interrupted copy can be repeated. A store is file://DIR, the folder blobs of a data directory, or s3://BUCKET/PREFIX?PARAMETERS as for --blob-url."`
}

// blobCopyOptions are the flags of 'ingot blob copy'.
type blobCopyOptions struct {
	From string `long:"from" required:"yes" value-name:"URL" description:"Store to copy from, file:///var/lib/ingot/blobs or s3://BUCKET/PREFIX"`
	To   string `long:"to" required:"yes" value-name:"URL" description:"Store to copy to"`
	logOptions
}

// copyBlobs copies the blobs of one store to another.
func (p *process) copyBlobs(o blobCopyOptions) error {
	log, err := p.logger(o.logOptions)
	if err != nil {
		return &usageError{err.Error(), "blob copy"}
	}
	ctx, stop := p.untilSignal()
	defer stop()
	return system.CopyBlobs(ctx, o.From, o.To, log, func(line string) { fmt.Fprintln(p.out, line) })
}
