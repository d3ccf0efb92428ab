_unirecord_columns() {
  local cur="${COMP_WORDS[COMP_CWORD]}" before="" name
  case "$cur" in *,*) before="${cur%,*}," ;; esac
  COMPREPLY=()
  while IFS= read -r name; do
    printf -v name %q "$name"
    case "$name" in "${cur##*,}"*) COMPREPLY+=("$before$name") ;; esac
  done < <("${COMP_WORDS[0]}" completion columns -- "${COMP_WORDS[@]:2}" 2>/dev/null)
}
_unirecord() {
  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" command="" words="" word i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "${COMP_WORDS[i]}" in
      -*) ;;
      *) command="${COMP_WORDS[i]}"; break ;;
    esac
  done
  case "$command $prev" in
    "write --from"|"convert --from") COMPREPLY=($(compgen -W 'python unirecord csv jsonl text coco voc yolo lerobot megatron idx cifar lmdb lance zarr litdata hdf5 mindrecord mds ffcv arrayrecord bagz datatrove tfrecord webdataset masks images parquet arrow npy tokens files' -- "$cur")); return ;;
    "write --engine"|"convert --engine") COMPREPLY=($(compgen -W ray -- "$cur")); return ;;
    "write --progress"|"convert --progress") COMPREPLY=($(compgen -W json -- "$cur")); return ;;
    "write --on-error"|"convert --on-error") COMPREPLY=($(compgen -W 'raise skip report' -- "$cur")); return ;;
    "export --to") COMPREPLY=($(compgen -W 'images csv jsonl parquet arrow webdataset tfrecord arrayrecord mds mindrecord lance npz' -- "$cur")); return ;;
    "trace --shuffle") COMPREPLY=($(compgen -W 'yes no block parts within-parts' -- "$cur")); return ;;
    "trace --remainder") COMPREPLY=($(compgen -W 'pad drop uneven' -- "$cur")); return ;;
    "trace --stop") COMPREPLY=($(compgen -W 'first all' -- "$cur")); return ;;
    "update --kind") COMPREPLY=($(compgen -W 'python unirecord csv jsonl text coco voc yolo lerobot megatron idx cifar lmdb lance zarr litdata hdf5 mindrecord mds ffcv arrayrecord bagz datatrove tfrecord webdataset masks images parquet arrow npy tokens files' -- "$cur")); return ;;
    "update --missing") COMPREPLY=($(compgen -W 'error ignore' -- "$cur")); return ;;
    "upsert --kind") COMPREPLY=($(compgen -W 'python unirecord csv jsonl text coco voc yolo lerobot megatron idx cifar lmdb lance zarr litdata hdf5 mindrecord mds ffcv arrayrecord bagz datatrove tfrecord webdataset masks images parquet arrow npy tokens files' -- "$cur")); return ;;
    "add-columns --from") COMPREPLY=($(compgen -W 'python unirecord csv jsonl text coco voc yolo lerobot megatron idx cifar lmdb lance zarr litdata hdf5 mindrecord mds ffcv arrayrecord bagz datatrove tfrecord webdataset masks images parquet arrow npy tokens files' -- "$cur")); return ;;
    "bench --io") COMPREPLY=($(compgen -W 'auto mmap pread uring uring-direct memory' -- "$cur")); return ;;
    "bench --verify") COMPREPLY=($(compgen -W 'first always never' -- "$cur")); return ;;
  esac
  case "$command $prev" in
    "write --index"|"convert --index"|"write --columns"|"convert --columns"|"write --where"|"convert --where"|"write --split-by"|"convert --split-by"|"write --stratify"|"convert --stratify"|"write --sort"|"convert --sort"|"write --unique-by"|"convert --unique-by"|"write --text-column"|"convert --text-column"|"write --picture-columns"|"convert --picture-columns"|"export --where"|"export --columns"|"inspect --where"|"info --where"|"head --where"|"ls --where"|"inspect --columns"|"info --columns"|"head --columns"|"ls --columns"|"inspect --sort"|"info --sort"|"head --sort"|"ls --sort"|"inspect --group-by"|"info --group-by"|"head --group-by"|"ls --group-by"|"inspect --extract"|"info --extract"|"head --extract"|"ls --extract"|"inspect --mean"|"info --mean"|"head --mean"|"ls --mean"|"inspect --sum"|"info --sum"|"head --sum"|"ls --sum"|"inspect --name"|"info --name"|"head --name"|"ls --name"|"trace --where"|"trace --by"|"trace --drawn-by"|"trace --row"|"trace --columns"|"trace --extract"|"diff --key"|"delete --where"|"delete --duplicates-by"|"update --key"|"update --columns"|"upsert --key"|"upsert --columns"|"set --where"|"add-columns --key"|"add-columns --columns"|"add-columns --reads"|"add-columns --index"|"purge --where"|"sort --by"|"split --by"|"split --stratify"|"bench --columns"|"bench --where"|"fetch --where"|"fetch --columns") _unirecord_columns; return ;;
  esac
  case "$command" in
    "") words='write convert export inspect info head ls view trace audit report log diff restore rollback gc delete update upsert set add-columns drop-columns rename-columns evict purge compact reshard sort merge split verify check repair bench fetch cache demo doctor completion --help --version' ;;
    help) words='write convert export inspect info head ls view trace audit report log diff restore rollback gc delete update upsert set add-columns drop-columns rename-columns evict purge compact reshard sort merge split verify check repair bench fetch cache demo doctor completion' ;;
    write|convert) words='-h --help --debug --from --schema --index --overwrite --append --codec --max-part-bytes --workers --engine --resume --id --dry-run --progress --max-spool-bytes --classes-from --report --columns --rename --where -n --limit --sample --split --split-by --stratify --seed --sort --shuffle-seed --unique-by --duplicates-file --tokenizer --text-column --append-eos --prepend-bos --add-special-tokens --resize --max-side --reencode --picture-columns --on-error --storage-option --delimiter --names --quoting --pictures --video --trust-sizes --check-pictures --folders-are-classes --labels --dtype --header --row-tokens --pattern --quiet' ;;
    export) words='-h --help --debug --to --where --columns -n --limit --parts --overwrite --json --storage-option --cache --cache-bytes --quiet' ;;
    inspect|info|head|ls) words='-h --help --debug --rows --json --csv --html --where --columns -n --limit --offset --sort --sample --seed --quote-formulas --count --group-by --stats --row --key --extract --explain --exact --mean --sum --out --name --storage-option --cache --cache-bytes' ;;
    view) words='-h --help --debug --port --open --storage-option --cache --cache-bytes' ;;
    trace) words='-h --help --debug --batch --ranks --drop-last --seed --shuffle --block-rows --window-blocks --remainder --where --state --start --weights --stop --samples --repeat --by --drawn-by --step --epoch --rank --row --epochs --columns -n --limit --csv --json --extract --out --storage-option --cache --cache-bytes' ;;
    audit) words='-h --help --debug --restarts --dataset --json' ;;
    report) words='-h --help --debug --restarts --dataset --quiet' ;;
    log) words='-h --help --debug --json --storage-option' ;;
    diff) words='-h --help --debug --key --any-order -n --limit --json --html --storage-option --cache --cache-bytes' ;;
    restore|rollback) words='-h --help --debug --storage-option --quiet' ;;
    gc) words='-h --help --debug --keep --older-than --dry-run --json --storage-option --quiet' ;;
    delete) words='-h --help --debug --where --rows --duplicates-by --duplicates-file --json --storage-option --quiet' ;;
    update) words='-h --help --debug --from --key --columns --kind --nulls --missing --dry-run --json --storage-option --delimiter --names --quoting --pictures --video --trust-sizes --check-pictures --folders-are-classes --labels --dtype --header --row-tokens --pattern --quiet' ;;
    upsert) words='-h --help --debug --from --key --columns --kind --nulls --dry-run --json --storage-option --delimiter --names --quoting --pictures --video --trust-sizes --check-pictures --folders-are-classes --labels --dtype --header --row-tokens --pattern --quiet' ;;
    set) words='-h --help --debug --where --rows --dry-run --json --storage-option --quiet' ;;
    add-columns) words='-h --help --debug --function --key --columns --schema --from --reads --batch-size --index --replace --keep --workers --resume --json --storage-option --delimiter --names --quoting --pictures --video --trust-sizes --check-pictures --folders-are-classes --labels --dtype --header --row-tokens --pattern --quiet' ;;
    drop-columns) words='-h --help --debug --json --storage-option --quiet' ;;
    rename-columns) words='-h --help --debug --json --storage-option --quiet' ;;
    evict) words='-h --help --debug --max-bytes --dry-run --json --storage-option --quiet' ;;
    purge) words='-h --help --debug --where --rows --yes --dry-run --json --quiet' ;;
    compact) words='-h --help --debug --part-bytes --rows-per-part --join-columns --drop-deleted --resume --dry-run --json --storage-option --quiet' ;;
    reshard) words='-h --help --debug --drop-deleted --resume --dry-run --json --storage-option --quiet' ;;
    sort) words='-h --help --debug --by --descending --cluster --part-bytes --resume --dry-run --json --storage-option --quiet' ;;
    merge) words='-h --help --debug --copy --dry-run --json --storage-option --quiet' ;;
    split) words='-h --help --debug --by --stratify --seed --workers --dry-run --quiet' ;;
    verify|check) words='-h --help --debug --quick --json --storage-option --quiet' ;;
    repair) words='-h --help --debug --output --json' ;;
    bench) words='-h --help --debug --pipeline --batch --step-ms --threads --seconds --io --columns --where --verify --cold --json --storage-option --cache --cache-bytes' ;;
    fetch) words='-h --help --debug --cache --cache-bytes --where --columns --json --storage-option --quiet' ;;
    cache) words='ls verify clear pin -h --help --debug --off --json' ;;
    demo) words='-h --help --debug --overwrite --quiet' ;;
    doctor) words='-h --help --debug --json' ;;
    completion) words='bash zsh fish columns -h --help --debug' ;;
  esac
  COMPREPLY=()
  if [[ -z "$command" || "$cur" == -* || "$prev" == "$command" ]]; then
    for word in $words; do
      case "$word" in
        "$cur"*) if [[ "$word" != -* || "$cur" == -* ]]; then COMPREPLY+=("$word"); fi ;;
      esac
    done
  fi
}
complete -o default -F _unirecord unirecord
