import sys

from yolofast.cli import main

sys.exit(main())
